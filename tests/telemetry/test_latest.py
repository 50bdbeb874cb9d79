"""The names of GenAI v0.1.0: only where they were asked for, and equal to what they are made of."""

from __future__ import annotations

import pytest

from guardproxy import config
from guardproxy.telemetry import RunEnd, Telemetry
from guardproxy.telemetry._instruments import LATEST
from tests.telemetry.reports import settings, turn

KEY = b"k" * 32
CLIENT = ("chat", "openai", "gpt-4o", "gpt-4o-2024-08-06", "api.openai.com")
EMBEDDED = ("embeddings", *CLIENT[1:])


def counted(**changes):
    telemetry = Telemetry(settings(**changes), KEY, "test")
    telemetry.report(turn(1))
    telemetry.report(turn(2, surface="embeddings", session="s-2"))
    telemetry.close_run(RunEnd("acme", "s-1", "finished", 0, 3000, "codex"))
    return telemetry.snapshot().series


def test_nothing_of_them_by_default():
    assert not LATEST & counted().keys()


def test_they_say_what_the_older_ones_say():
    found = counted(genai_metrics="both")
    usage = {
        name.removeprefix("gen_ai.client.inference.usage."): rows for name, rows in found.items() if ".usage." in name
    }

    assert found["gen_ai.client.inference.duration"] == {
        (*CLIENT, ""): found["gen_ai.client.operation.duration"][*CLIENT, ""]
    }
    assert (*EMBEDDED, "") in found["gen_ai.client.operation.duration"]
    assert set(found["gen_ai.client.inference.time_to_first_chunk"]) == {CLIENT}
    assert found["gen_ai.client.inference.operation.output_tokens"][CLIENT][0] == 50
    assert usage["input_tokens"] == {(*CLIENT, "unknown"): [1000]}
    assert usage["output_tokens"] == {(*CLIENT, "unknown"): [50]}
    assert usage["cache_read.input_tokens"] == {(*CLIENT, "unknown"): [400]}
    assert found["gen_ai.invoke_agent.duration"]["codex",][0] == 3


@pytest.mark.parametrize(
    ("document", "env", "expected"),
    [
        ({}, {}, "usual"),
        ({}, {"OTEL_SEMCONV_STABILITY_OPT_IN": "http,gen_ai_latest_experimental"}, "both"),
        ({}, {"OTEL_SEMCONV_STABILITY_OPT_IN": "http/dup"}, "usual"),
        ({"telemetry": {"genai_metrics": "usual"}}, {"OTEL_SEMCONV_STABILITY_OPT_IN": config.NEWEST}, "usual"),
        ({"telemetry": {"genai_metrics": "both"}}, {}, "both"),
    ],
    ids=str,
)
def test_how_they_are_asked_for(document, env, expected, tmp_path):
    (tmp_path / "c.yaml").write_text(str(document))
    tree, _ = config.load(tmp_path / "c.yaml", env)

    assert tree.telemetry.genai_metrics == expected
