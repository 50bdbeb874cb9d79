"""The tools of the demonstration."""

from __future__ import annotations

import json

import pytest

from guardproxy.demo.tools import TOOLS, Toolbox, schemas


def test_every_tool_is_offered_and_works() -> None:
    offered = {one["function"]["name"]: one["function"]["parameters"]["required"][0] for one in schemas()}
    box = Toolbox()
    results = [box.execute(name, json.dumps({argument: "x"})) for name, argument in offered.items()]

    assert set(offered) == set(TOOLS)
    assert not [result for result in results if result.startswith("Error")]
    assert box.executed.total() == len(TOOLS)


@pytest.mark.parametrize(
    ("name", "arguments"), [("nobody", "{}"), ("read_file", "{"), ("fetch_page", "{}"), ("fetch_page", "[]")]
)
def test_a_bad_call_is_an_error_as_text(name: str, arguments: str) -> None:
    box = Toolbox()

    assert box.execute(name, arguments).startswith("Error")
    assert box.executed == {name: 1}


def test_a_poll_comes_to_an_end() -> None:
    box = Toolbox()
    said = [json.loads(box.execute("deploy_status", '{"id": "d-17"}'))["status"] for _ in range(8)]

    assert said[0] == "queued"
    assert said[5:] == ["live", "live", "live"]
