"""Real spans in a real backend: Arize Phoenix shows one trace a run, knows agents, models and tools, adds tokens right.

`make phoenix` installs it (850 MB, in a place of its own) and runs this; `make test` and `make verify` do not.
With `PHOENIX_SHOTS=FOLDER` chromium takes a picture of the looped run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guardproxy.store import embedded
from guardproxy.store.redis import Store
from guardproxy.telemetry import RunEnd, Telemetry
from tests.live import Got, Json, Live, Said, config_of, live
from tests.store.processes import free_ports

PHOENIX = Path(os.environ.get("PHOENIX", ".venv-phoenix/bin/phoenix"))
SHOTS = os.environ.get("PHOENIX_SHOTS", "")
START_S = 180.0
"""Eleven seconds on a machine that does nothing else."""

pytestmark = [
    pytest.mark.phoenix,
    pytest.mark.skipif(not PHOENIX.exists(), reason="make phoenix installs it"),
]
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("read", "ls")]


def got(url: str) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=20) as answer:
        return json.loads(answer.read() or b"null")


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, grpc = free_ports(2)
    folder = tmp_path_factory.mktemp("phoenix")
    env = os.environ | {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([PHOENIX, "serve"], env=env, stdout=log, stderr=log)
        try:
            began = time.monotonic()
            while True:
                assert process.poll() is None, (folder / "log").read_text()[-2000:]
                try:
                    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                        f"http://127.0.0.1:{port}/healthz", timeout=5
                    ).close()
                    break
                except OSError:
                    assert time.monotonic() - began < START_S
                    time.sleep(0.5)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def script(got: Got) -> Said:
    """One agent reads a file for ever; the other looks three times at different places, and is content."""
    messages, number = got.json["messages"], len(got.json["messages"])
    if "loop" in messages[0]["content"]:
        return Said(calls=[("read", '{"path": "a.txt"}', f"call_{number}")])
    if number < 6:
        return Said("I look.", calls=[("ls", json.dumps({"path": f"/{number}"}), f"call_{number}")])
    return Said("All is well.")


async def run(running: Live, session: str, task: str) -> int:
    """A whole run; how many turns reached the provider."""
    messages: list[Json] = [{"role": "user", "content": task}]
    before = len(running.provider.got)
    for _ in range(9):
        body = {"model": "gpt-4o-mini", "messages": messages, "tools": TOOLS}
        headers = {"x-guardproxy-session-id": session, "x-guardproxy-agent": "reader"}
        message = (await running.post(body, headers)).json["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            break
        for call in message["tool_calls"]:
            text = f"{call['function']['arguments']}: nothing to see"
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return len(running.provider.got) - before


async def test_one_trace_a_run(phoenix: str) -> None:
    section = {"telemetry": {"otlp_endpoint": phoenix, "capture_content": "span_only"}}
    front = Telemetry(config_of(**section).telemetry, b"k" * 32, "test")
    with embedded.scratch() as server:
        store = await Store.connect(socket_path=server.socket_path, timeout_ms=10_000)
        async with live(store, front, **section) as running:
            running.provider.script = script
            looped = await run(running, "a-loop", "loop: what is in a.txt?")
            fine = await run(running, "fine", "what is there?")
            known = await store.session_state("default", "fine")
        await store.close()
    assert known is not None
    front.close_run(
        RunEnd("default", "fine", "finished", known.started_ms, known.at_ms, "reader", declared=True, turns=fine)
    )
    await front.shutdown(30)
    spans = _arrived(phoenix)
    by_session: dict[str, list[Any]] = {}
    for span in spans:
        by_session.setdefault(span["attributes"]["session.id"], []).append(span)
    for session, turns in (("a-loop", looped), ("fine", fine)):
        _is_right(by_session[session], turns)
    roots = {session: [one for one in some if not one["parent_id"]] for session, some in by_session.items()}
    assert [one["status_code"] for one in roots["a-loop"]] in (["ERROR"], ["UNSET"])  # cut, or finalized before it
    assert [one["name"] for one in roots["fine"]] == ["invoke_agent reader"]
    if SHOTS:
        _pictures(phoenix, by_session["a-loop"][0]["context"]["trace_id"])


def _arrived(phoenix: str) -> list[Any]:
    """All spans, once no more come."""
    count, spans = -1, []
    for _ in range(60):
        time.sleep(1)
        try:
            spans = got(f"{phoenix}/v1/projects/default/spans?limit=1000")["data"]
        except OSError:
            continue
        if spans and len(spans) == count:
            return spans
        count = len(spans)
    raise AssertionError(f"only {count} spans arrived")


def _is_right(spans: list[Any], turns: int) -> None:
    kinds = Counter(span["span_kind"] for span in spans)
    chats = [span["attributes"] for span in spans if span["span_kind"] == "LLM"]
    ids = {span["context"]["span_id"] for span in spans}
    roots = [span for span in spans if not span["parent_id"]]

    assert len({span["context"]["trace_id"] for span in spans}) == 1
    assert len(roots) == 1
    assert all(span["parent_id"] in ids for span in spans if span["parent_id"])  # nothing hangs in the air
    assert (kinds["AGENT"], kinds["LLM"]) == (1, turns)
    assert kinds["TOOL"] >= 3
    for key in ("prompt", "completion"):
        told = [one.get(f"llm.token_count.{key}") for one in chats]
        assert None not in told, chats[0]
    total = sum(one["llm.token_count.prompt"] + one["llm.token_count.completion"] for one in chats)
    assert total == sum(one["gen_ai.usage.input_tokens"] + one["gen_ai.usage.output_tokens"] for one in chats) > 0


def _pictures(phoenix: str, trace: str) -> None:
    """The run as a person sees it."""
    browser = shutil.which("chromium")
    assert browser
    project = next(one["id"] for one in got(f"{phoenix}/v1/projects")["data"] if one["name"] == "default")
    for name, path in (("traces", f"projects/{project}/traces"), ("run", f"projects/{project}/traces/{trace}")):
        shot = [f"--screenshot={Path(SHOTS) / name}.png", "--window-size=1600,1100", "--virtual-time-budget=20000"]
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            *shot,
            f"{phoenix}/{path}",
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=180)
