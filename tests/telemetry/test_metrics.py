"""Metrics derived from reports, and the bounds on their labels."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import guardproxy
from guardproxy.core.model import Decision, Flag, Line, Usage
from guardproxy.telemetry import RunEnd, semconv
from guardproxy.telemetry._bounds import MAX_SERIES, MAX_VALUES
from guardproxy.telemetry.ending import run_end
from guardproxy.telemetry.metrics import BY_NAME, TABLE, Meter, RunMetrics
from guardproxy.telemetry.report import Attempt, Objected, Server
from tests.telemetry.reports import SECOND, cut, eventful, life, nudged, refused, step, turn, view

OBSERVED = Decision("observe", rule="cycle", mode="observe", would="cut")
DENIED = Decision("deny", rule="budget", refused=Line("span", "turns", 1, limit=8))
HELD = (Objected("tools.approval", "send_mail", "pause"),)
FAILED = replace(turn(1).attempts[0], status=502, error_type="502")


def series(*reports, trips=()):
    meter = Meter()
    for report in reports:
        RunMetrics(meter).turn(report, trips)
    return meter.snapshot(1).series


def value(found, name, *labels) -> float:
    return found.get(name, {}).get(labels, [0.0])[0]


def count(found, name, *labels) -> float:
    return sum(found.get(name, {}).get(labels, [0.0])[1:])


CLIENT = ("chat", "openai", "gpt-4o", "gpt-4o-2024-08-06", "api.openai.com")


@pytest.mark.parametrize(
    ("report", "name", "labels", "expected"),
    [
        (turn(1), "guardproxy.turns", ("acme", "codex"), 1),
        (turn(1, view=view(1, retry=True)), "guardproxy.turns", ("acme", "codex"), 0),
        (turn(1, view=view(1, counted=False)), "guardproxy.turns", ("acme", "codex"), 0),
        (turn(1, view=view(1, admitted=False)), "guardproxy.turns", ("acme", "codex"), 0),
        (turn(1, view=view(1, closed=True)), "guardproxy.turns", ("acme", "codex"), 0),
        (turn(1, session=""), "guardproxy.turns", ("acme", "codex"), 0),
        (nudged(), "guardproxy.interventions", ("acme", "nudge", "repeated_call", "enforce"), 1),
        (cut(), "guardproxy.interventions", ("acme", "cut", "repeated_call", "enforce"), 1),
        (turn(1, decision=OBSERVED), "guardproxy.interventions", ("acme", "cut", "cycle", "observe"), 1),
        (turn(1, decision=DENIED), "guardproxy.budget.rejections", ("span", "turns"), 1),
        (turn(1), "guardproxy.tokens", ("acme", "gpt-4o", "input"), 1000),
        (turn(1), "guardproxy.tokens", ("acme", "gpt-4o", "cache_read"), 400),
        (turn(1), "guardproxy.tokens", ("acme", "gpt-4o", "reasoning"), 0),
        (turn(1), "guardproxy.cost.usd", ("acme", "core", "gpt-4o"), 0.0015),
        (turn(1, decision=DENIED, saved_microusd=(40, 0)), "guardproxy.saved.usd", ("acme", "enforce"), 0.00004),
        (turn(1, decision=OBSERVED, saved_microusd=(0, 1500)), "guardproxy.saved.usd", ("acme", "observe"), 0.0015),
        (turn(1), "guardproxy.saved.usd", ("acme", "enforce"), 0),
        (turn(1, cost_microusd=None), "guardproxy.cost.usd", ("acme", "core", "gpt-4o"), 0),
        (turn(2), "guardproxy.tool.calls", ("read_file", "ok"), 1),
        (turn(2, steps=(step(flags=Flag.FAILED),)), "guardproxy.tool.calls", ("read_file", "error"), 1),
        (turn(2, steps=(step(flags=Flag.UNANSWERED),)), "guardproxy.tool.calls", ("read_file", "abandoned"), 1),
        (nudged(), "guardproxy.tool.repeats", ("read_file", "repeated_call"), 1),
        (turn(1, view=view(1, degraded=True)), "guardproxy.store.fallbacks", ("open",), 1),
        (refused(), "guardproxy.interventions", ("acme", "refuse", "repeated_call", "enforce"), 2),
        (refused(), "guardproxy.interventions", ("acme", "firm", "repeated_call", "enforce"), 1),
        (
            refused(decision=Decision("pass")),
            "guardproxy.interventions",
            ("acme", "refuse", "repeated_call", "enforce"),
            2,
        ),
        (turn(1, objected=HELD), "guardproxy.interventions", ("acme", "pause", "tools.approval", "enforce"), 1),
        (refused(), "guardproxy.reasks", ("acme", "reask"), 1),
        (turn(1, attempts=(FAILED, turn(1).attempts[0])), "guardproxy.reasks", ("acme", "first"), 0),
        (eventful(), "guardproxy.verifications", ("acme", "failed"), 1),
        (turn(1, verification="passed"), "guardproxy.verifications", ("acme", "passed"), 1),
        (eventful(), "guardproxy.verification.failures", ("acme", "files"), 1),
        (eventful(), "guardproxy.hygiene", ("truncate", "enforce"), 2),
        (eventful(), "guardproxy.hygiene", ("errors", "observe"), 1),
        (eventful(), "guardproxy.tool.late", ("read_file",), 1),
        (eventful(), "guardproxy.answers.missing", ("acme", "codex"), 1),
    ],
)
def test_counters(report, name, labels, expected):
    assert value(series(report), name, *labels) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("report", "name", "labels", "total"),
    [
        (turn(1), "http.server.request.duration", ("POST", "/v1/chat/completions", "200", ""), 2.001),
        (turn(1), "gen_ai.client.operation.duration", (*CLIENT, ""), 1.999),
        (turn(1), "gen_ai.client.operation.time_to_first_chunk", CLIENT, 0.499),
        (turn(1), "gen_ai.client.token.usage", (*CLIENT, "output"), 50),
        (turn(1), "guardproxy.overhead.duration", ("request",), 0.0004),
        (turn(1), "guardproxy.overhead.duration", ("response",), 0.0002),
        (turn(1), "guardproxy.store.operation.duration", ("begin", ""), 0.0003),
        (turn(1), "guardproxy.store.operation.duration", ("settle", ""), 0.0003),
        (
            turn(1, view=view(1, degraded=True)),
            "guardproxy.store.operation.duration",
            ("begin", "store_unavailable"),
            0.0003,
        ),
    ],
)
def test_histograms(report, name, labels, total):
    found = series(report)

    assert value(found, name, *labels) == pytest.approx(total)
    assert count(found, name, *labels) == 1


def test_a_failed_attempt_is_counted_by_its_duration_only():
    found = series(turn(1, attempts=(FAILED,), usage=Usage(), cost_microusd=None))

    assert count(found, "gen_ai.client.operation.duration", *CLIENT, "502") == 1
    assert "gen_ai.client.token.usage" not in found
    assert "gen_ai.client.operation.time_to_first_chunk" not in found
    assert "guardproxy.tokens" not in found


def test_attempts_at_several_upstreams_are_observed_by_their_address():
    good = replace(turn(1).attempts[0], server=Server("b", "b.example", 443))
    bad = replace(good, status=503, error_type="503", server=Server("a", "a.example", 443))
    found = series(turn(1, attempts=(bad, good), server_address="b.example"))["gen_ai.client.operation.duration"]

    assert sorted(labels[-2:] for labels in found) == [("a.example", "503"), ("b.example", "")]


@pytest.mark.parametrize(("trips", "expected"), [((8.0,), 1), ((-1.0,), 0), ((), 0)])
def test_a_round_trip_is_observed_where_it_is_known(trips, expected):
    found = series(turn(2), trips=trips)

    assert count(found, "guardproxy.tool.roundtrip.duration", "read_file", "ok") == expected


def test_a_pass_through_request_is_only_a_request():
    found = series(turn(1, session="", surface="passthrough", attempts=()))

    assert {name for name in found if not name.startswith("guardproxy.")} == {"http.server.request.duration"}
    assert not {"guardproxy.turns", "guardproxy.tokens"} & found.keys()


def test_the_end_of_a_run():
    meter = Meter()
    RunMetrics(meter).run(run_end(cut()), adopted=False)
    found = meter.snapshot(1).series

    assert value(found, "guardproxy.sessions", "acme", "codex", "cut", "repeated_call") == 1
    assert value(found, "guardproxy.session.turns", "cut") == 7
    assert value(found, "guardproxy.session.cost.usd", "cut") == pytest.approx(0.009)
    assert value(found, "guardproxy.session.duration", "cut") == pytest.approx(70.01)
    assert value(found, "gen_ai.invoke_agent.tool_calls", "codex") == 6


def test_the_agent_of_an_adopted_trace_is_counted_by_others():
    meter = Meter()
    RunMetrics(meter).run(RunEnd("acme", "s", "finished", 0, 1), adopted=True)

    assert not [name for name in meter.snapshot(1).series if name.startswith("gen_ai")]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"approval": ("ap", "pending"), "objected": HELD}, {"pending": 1}),  # asked for
        ({"approval": ("ap", "approved"), "objected": HELD}, {"pending": 1, "approved": 1}),  # while it was held
        ({"approval": ("ap", "pending")}, {}),  # asked again while it waits
        ({"approval": ("ap", "denied")}, {"denied": 1}),
        ({"approval": ("ap", "denied"), "view": view(1, retry=True)}, {}),
        ({"approval": ("ap", "pending"), "objected": (replace(HELD[0], mode="observe"),)}, {}),
        ({"objected": HELD}, {}),  # a pause without an approval
    ],
    ids=str,
)
def test_approvals_are_counted_once_asked_for_and_once_decided(changes, expected):
    rows = series(turn(1, **changes)).get("guardproxy.approvals", {})

    assert {state: row[0] for (_, state), row in rows.items()} == expected


def test_a_turn_without_events_has_no_series_of_them():
    quiet, loud = (series(*reports) for reports in ([turn(1), turn(2)], [turn(1), turn(2), eventful(), refused()]))

    assert {name.removeprefix("guardproxy.") for name in loud.keys() - quiet.keys()} == {
        "answers.missing",
        "hygiene",
        "interventions",
        "reasks",
        "tool.late",
        "tool.repeats",
        "verification.failures",
        "verifications",
    }


def test_labels_of_events_are_bounded_too():
    names = [f"name-{number}" for number in range(300)]
    objected = tuple(Objected(name, name, name, name) for name in names)
    attempts = (turn(1).attempts[0], *(Attempt(1, 2, reason=name) for name in names))
    wild = {"hygiene": tuple((name, name, name) for name in names), "late": tuple(names), "failed_checks": tuple(names)}
    found = series(turn(1, objected=objected, attempts=attempts, **wild))

    for name in ("interventions", "reasks", "hygiene", "tool.late", "verification.failures"):
        assert len(found[f"guardproxy.{name}"]) <= MAX_VALUES[semconv.GEN_AI_TOOL] + 1
        assert sum(row[0] for row in found[f"guardproxy.{name}"].values()) == 300


@given(st.lists(st.text(max_size=300), min_size=1, max_size=300))
def test_label_values_are_bounded(names):
    meter = Meter()
    for name in names:
        meter.add("guardproxy.turns", ("acme", name))
    rows = meter.snapshot(1).series["guardproxy.turns"]

    assert sum(row[0] for row in rows.values()) == len(names)
    assert len(rows) <= MAX_VALUES[semconv.GEN_AI_AGENT] + 2  # the empty one and `_other`
    assert all(len(text) <= 100 for labels in rows for text in labels)


def test_the_first_values_keep_their_names_and_the_rest_is_other():
    meter = Meter()
    for number in range(150):
        meter.add("guardproxy.cost.usd", ("acme", "", f"model-{number}"))
    rows = meter.snapshot(1).series["guardproxy.cost.usd"]

    assert ("acme", "", "model-0") in rows
    assert rows["acme", "", semconv.OTHER] == [150 - MAX_VALUES[semconv.GEN_AI_REQUEST_MODEL]]


def test_series_are_bounded():
    meter = Meter()
    for org in range(100):
        for model in range(90):
            meter.add("guardproxy.cost.usd", (f"org-{org}", "", f"model-{model}"))
    rows = meter.snapshot(1).series["guardproxy.cost.usd"]

    assert len(rows) == MAX_SERIES
    assert sum(row[0] for row in rows.values()) == 9000
    assert (semconv.OTHER,) * 3 in rows


def test_aliases_are_bounded():
    meter = Meter()
    for number in range(10_000):
        meter.add("guardproxy.turns", ("acme", f"agent-{number}"))

    assert len(meter._cells["guardproxy.turns"].alias) <= 4096


def test_no_label_can_name_a_session_a_user_or_a_key():
    labels = {label for instrument in TABLE for label in instrument.labels}

    assert not [label for label in labels if "session" in label or "user" in label or "key" in label]
    assert "s-1" not in repr([series(report) for report in life()])


def test_names_are_unique_and_can_be_scraped():
    scraped = [instrument.prometheus for instrument in TABLE]

    assert len(set(scraped)) == len(BY_NAME) == len(TABLE)
    assert BY_NAME["guardproxy.cost.usd"].prometheus == "guardproxy_cost_usd_total"
    assert BY_NAME["guardproxy.session.duration"].prometheus == "guardproxy_session_duration_seconds"


@pytest.mark.parametrize("instrument", TABLE, ids=lambda instrument: instrument.name)
def test_buckets_rise(instrument):
    assert (instrument.kind == "histogram") == bool(instrument.buckets)
    assert sorted(set(instrument.buckets)) == list(instrument.buckets)
    assert instrument.help.endswith(".") or instrument.kind == "gauge"


def test_a_value_on_a_bound_belongs_to_its_bucket():
    meter = Meter()
    for seconds in (0.0005, 0.00051, 100.0):
        meter.observe("guardproxy.overhead.duration", ("request",), seconds)
    row = meter.snapshot(1).series["guardproxy.overhead.duration"]["request",]

    assert row[1:3] == [1, 1]
    assert row[-1] == 1


def test_rare_events_are_counted_by_name():
    meter = Meter()
    meter.event("guardproxy.shed", {"reason": "in_flight"}, 2)
    meter.event("shed", {semconv.REASON: "in_flight"}, 1)
    meter.event("passthrough", {"method": "GET"}, 1)
    meter.event("guardproxy.sessions.active", {"state": "active"}, 7)
    meter.event("guardproxy.store.operation.duration", {"operation": "sweep"}, 0.1)
    found = meter.snapshot(1).series

    assert value(found, "guardproxy.shed", "in_flight") == 3
    assert value(found, "guardproxy.passthrough", "GET") == 1
    assert value(found, "guardproxy.sessions.active", "active") == 7
    assert count(found, "guardproxy.store.operation.duration", "sweep", "") == 1


def test_two_orders_of_time_make_no_negative_duration():
    end = RunEnd("acme", "s", "abandoned", started_ms=2 * SECOND, ended_ms=SECOND)
    meter = Meter()
    RunMetrics(meter).run(end, adopted=False)

    assert value(meter.snapshot(1).series, "guardproxy.session.duration", "abandoned") == 0


@pytest.mark.parametrize("labels", [{"provider": "openai"}, {"gen_ai.provider.nam": "x"}])
def test_a_label_that_a_metric_does_not_have_is_a_fault(labels):
    """It would be lost without a word: the last word of gen_ai.provider.name is `name`."""
    with pytest.raises(ValueError, match="has the labels"):
        Meter().event("upstream.retries", labels, 1)


def calls_of_count():
    """(file, metric, names of labels) of every rare event that the code counts, as far as it says so in one place."""
    for file in sorted(Path(guardproxy.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "count" and len(node.args) >= 2:
                name, labels = node.args[:2]
                if isinstance(name, ast.Constant) and isinstance(labels, ast.Dict):
                    yield file.name, name.value, [key.value for key in labels.keys]


def test_every_event_that_is_counted_has_the_labels_of_its_metric():
    found = list(calls_of_count())

    assert len(found) >= 12
    for _, name, labels in found:
        Meter().event(name, dict.fromkeys(labels, "x"), 1)
