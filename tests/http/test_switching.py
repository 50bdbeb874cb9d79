"""A client of another gateway changes its base URL and nothing else: its runs, users and labels are understood."""

from __future__ import annotations

import json
from collections.abc import Mapping

import orjson
import pytest

from guardproxy.store.redis import Store
from guardproxy.telemetry import log
from guardproxy.telemetry._attributes import of_turn
from tests.live import Json, live, unique
from tests.scenes import Heard

STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
Spelled = tuple[Mapping[str, str], Json, str, dict[str, str]]


def spelled(run: str) -> dict[str, Spelled]:
    """Headers and fields of each gateway's clients, the user and the labels that they name."""
    portkey = {"_user": "ann", "_environment": "prod", "team": "search"}
    spend = {"project": "p-1"}
    return {
        "litellm, headers": (
            {
                "x-litellm-session-id": run,
                "x-litellm-end-user-id": "ann",
                "x-litellm-tags": "nightly",
                "x-litellm-spend-logs-metadata": json.dumps(spend),
            },
            {},
            "ann",
            {"tags": "nightly", "project": "p-1"},
        ),
        "litellm, trace": ({"x-litellm-trace-id": run, "x-litellm-customer-id": "ann"}, {}, "ann", {}),
        "litellm, body": (
            {},
            {"litellm_session_id": run, "user": "ann", "metadata": {"tags": ["nightly", "eu"]}},
            "ann",
            {"tags": "nightly,eu"},
        ),
        "litellm, metadata": ({}, {"metadata": {"session_id": run, "user_id": "ann"}}, "ann", {}),
        "litellm, a vendor's header": ({"x-acme-session-id": run}, {"user": "ann"}, "ann", {}),
        "portkey": (
            {"x-portkey-trace-id": run, "x-portkey-metadata": json.dumps(portkey), "x-portkey-provider": "openai"},
            {},
            "ann",
            {"_environment": "prod", "team": "search"},
        ),
        "helicone": (
            {
                "Helicone-Session-Id": run,
                "Helicone-Session-Name": "Trip",
                "Helicone-Session-Path": "/plan",
                "Helicone-User-Id": "ann",
                "Helicone-Property-App": "mobile",
            },
            {},
            "ann",
            {"session_name": "Trip", "session_path": "/plan", "app": "mobile"},
        ),
    }


@STREAM
@pytest.mark.parametrize("size", [1, 100_000], ids=["short", "long"])  # long bodies are read in another way
@pytest.mark.parametrize("gateway", spelled(""))
async def test_switching(gateway: str, size: int, stream: bool, store: Store, heard: Heard) -> None:
    run = unique("run")
    headers, fields, user, labels = spelled(run)[gateway]
    async with live(store, heard, policy={"limits": {"session": {"turns": 9}}}) as running:
        answers = []
        for task in ("Plan.", "Book."):  # two agents of one run: what names it is the header
            body = {
                "model": "mock-1",
                "messages": [{"role": "user", "content": task * size}],
                "stream": stream,
                **fields,
            }
            answers.append(await running.post(body, headers))
        reports = [await heard.next() for _ in answers]
        sent = [{name.lower(): value for name, value in got.headers.items()} for got in running.provider.got]
        bodies = [got.json for got in running.provider.got]

    assert [answer.headers["x-guardproxy-session-id"] for answer in answers] == [run, run]
    assert [json.loads(answer.headers["x-guardproxy-budget-remaining"])["turns"] for answer in answers] == [8, 7]
    for report in reports:
        assert report.declared
        assert (report.user, dict(report.labels)) == (user, labels)
        line = orjson.loads(orjson.dumps(log.fields_of(report)))
        assert (line.get("user"), line.get("labels", {})) == (user, labels)
        span = of_turn(report, {})
        assert span["user.id"] == user
        assert span.get("guardproxy.labels", ()) == tuple(f"{name}={value}" for name, value in labels.items())
    for name, value in headers.items():  # what is not for us alone goes on: the next gateway may stand behind us
        assert [got[name.lower()] for got in sent] == [value, value]
    for body in bodies:
        assert fields.items() <= body.items()


async def test_no_user_and_no_label_is_in_a_metric(store: Store, heard: Heard) -> None:
    headers = {"helicone-user-id": "user-in-no-metric", "helicone-property-secret": "label-in-no-metric"}
    async with live(store, heard) as running:
        await running.post({"model": "mock-1", "messages": [{"role": "user", "content": "Go."}]}, headers)
        report = await heard.next()
    assert report.user == "user-in-no-metric"
    assert b"in-no-metric" not in heard.snapshot().to_json()


async def test_our_own_header_is_not_passed_on(store: Store, heard: Heard) -> None:
    async with live(store, heard) as running:
        body = {"model": "mock-1", "messages": [{"role": "user", "content": "Go."}]}
        await running.post(body, {"x-guardproxy-user-id": "ann", "helicone-user-id": "bob"})
        report = await heard.next()
        (got,) = running.provider.got
    assert report.user == "ann"
    assert "x-guardproxy-user-id" not in {name.lower() for name in got.headers}
