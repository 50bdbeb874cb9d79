"""Answers of recorded runs: no check that needs no setting of its own says a word about any of them.

Hundreds of answers of real agents, on the way and at the end, among them three dozen that say that the tests pass.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guardproxy.core.completion import CHECKS, Candidate, Failure, verify
from guardproxy.core.completion._claims import claims_run
from guardproxy.core.rounds import calls_in
from tests.core.completion.finals import whole

RUNS = Path(__file__).parents[4] / "shared" / "trajectories" / "dev.jsonl.gz"


def answers() -> Iterator[tuple[str, Candidate]]:
    """Messages without calls, with what was said before: all that claim tests, and every fourth run's last."""
    with gzip.open(RUNS) as lines:
        for number, line in enumerate(lines):
            run: dict[str, Any] = json.loads(line)
            messages = run["messages"]
            texts = [at for at, one in enumerate(messages) if _answers(one)]
            for at in [at for at in texts if claims_run(messages[at]["content"])] + texts[-1:] * (number % 4 == 0):
                asked = whole(*messages[:at])
                if not calls_in(asked, messages[at]["content"]):
                    yield run["id"], Candidate(messages[at]["content"], (), asked)


def _answers(message: dict[str, Any]) -> bool:
    said = message.get("content")
    return message["role"] == "assistant" and not message.get("tool_calls") and isinstance(said, str) and bool(said)


@pytest.mark.skipif(
    not RUNS.exists(), reason="../shared/trajectories is not here: this test reads what others recorded"
)
def test_nothing_is_said_of_answers_of_real_runs() -> None:
    checks = {
        "files": CHECKS["files"].Settings(tests=True),
        "open_calls": CHECKS["open_calls"].Settings(mode="enforce"),
        "unresolved_failure": CHECKS["unresolved_failure"].Settings(tools=("*",), mode="enforce"),
    }
    raised: list[str] = []
    claims = count = 0
    found: list[tuple[str, Failure]] = []
    for run, candidate in answers():
        count += 1
        claims += claims_run(candidate.text)
        found += [(run, one) for one in verify(candidate, checks, "en", raised=raised.append)]

    assert raised == []
    assert count > 150
    assert claims > 20
    assert found == []
