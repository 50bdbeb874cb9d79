"""Runs that real clients made on /v1/responses by ids alone: what is sent holds results, and no call."""

from __future__ import annotations

import json

import pytest

from guardproxy.store.redis import Store
from tests.accept.test_recordings import FILES, FORMS, requests_of
from tests.live import Said, live
from tests.surfaces import responses

NAMES = [name for name, surface in FILES.items() if surface is responses and "-previous-" in name]


@pytest.mark.skipif(not NAMES, reason="../shared/clients/recordings is not here")
@pytest.mark.parametrize("name", NAMES)
async def test_a_run_by_id_alone_is_one_run(store: Store, name: str) -> None:
    """The provider's answers are made up from the ids: of a loop the third equal result is nudged, here too."""
    requests = requests_of(name)
    verdicts = []
    async with live(store, surface=responses) as running:
        sessions = set()
        for number, request in enumerate(requests):
            following = requests[number + 1].body if number + 1 < len(requests) else {}
            results = [item for item in following.get("input", ()) if isinstance(item, dict)]
            calls = [("read_note", '{"path":"note.txt"}', item["call_id"]) for item in results if "call_id" in item]
            whole = responses.whole(Said(None if calls else "Done.", calls))
            whole = whole.replace(b'"resp_1"', json.dumps(following.get("previous_response_id", "resp_last")).encode())
            running.provider.script = lambda _got, raw=whole: Said(raw=raw)
            answer = await running.post(FORMS["python"](request.body), request.headers)
            running.offset_ms += 2000
            verdicts.append(answer.verdict)
            sessions.add(answer.headers["x-guardproxy-session-id"])
            assert answer.headers["x-guardproxy-turn"] == str(number + 1)
    assert len(sessions) == 1
    assert (verdicts[3:4] == ["nudge"]) == ("tool" not in name), verdicts
