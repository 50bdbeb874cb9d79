"""The bound on series: of one worker, of many, of workers that die and start anew all day."""

from __future__ import annotations

from guardproxy.core.model import Decision
from guardproxy.telemetry import Fleet, RunEnd, semconv
from guardproxy.telemetry._bounds import MAX_CHARS, MAX_SAMPLES, MAX_SERIES, Bounds, most
from guardproxy.telemetry._instruments import BY_NAME, TABLE
from guardproxy.telemetry.exposition import render, render_open
from guardproxy.telemetry.metrics import Meter, RunMetrics
from tests.telemetry.reports import eventful, refused, step, turn

SESSIONS, AGENTS, TOOLS = 10_000, 500, 2_000
DOCUMENTED = 50_000
"""In docs/metrics.md; an operator reckons with it."""


def lines(text: str) -> int:
    return sum(not line.startswith("#") for line in text.splitlines())


def busy(worker: int) -> Meter:
    """One worker's share of many runs of many agents with many tools, models, orgs and rules."""
    meter = Meter()
    metrics = RunMetrics(meter, latest=True)
    reports = turn(2), eventful(2), refused(5)
    for number in range(worker, SESSIONS, 4):
        org, agent, rule = f"org-{number % 40}", f"agent-{number % AGENTS}", f"rule-{number % 19}"
        plain, special = reports[0], reports[1 + number % 2]
        for one in (plain, special):
            one.session, one.org, one.agent = f"s-{number}", org, agent
            one.team, one.model = f"team-{number % 90}", f"model-{number % 300}"
        plain.decision = Decision("nudge", rule=rule, count=3)
        plain.steps = (step(f"tool-{number % TOOLS}"),)
        metrics.turn(plain, (float(number % 50),))
        metrics.turn(special, (1.0,))
        metrics.run(RunEnd(org, f"s-{number}", "cut", 0, 10, agent, rule=rule), adopted=False)
    return meter


def test_ten_thousand_sessions_stay_under_the_documented_bound():
    fleet, total = Fleet(), 0.0
    for worker in range(4):
        fleet.put(f"w{worker}", busy(worker).snapshot(worker + 1))
        shown = fleet.total()
        ended = sum(cell[0] for cell in shown.series["guardproxy.sessions"].values())
        assert ended > total  # each counts, by whatever name
        total = ended
    text = render(shown)

    assert total == SESSIONS
    assert MAX_SAMPLES == DOCUMENTED
    assert 3_000 < lines(text) <= DOCUMENTED
    assert lines(render_open(shown)) == lines(text)
    assert all(len(rows) <= most(BY_NAME[name]) for name, rows in shown.series.items())
    assert 'gen_ai_agent_name="_other"' in text
    assert "s-9" not in text


def test_the_bound_of_all_holds_where_each_instrument_alone_would_not():
    bounds, samples = Bounds(), 0
    for instrument in TABLE:
        labels = instrument.labels
        wild = [(f"a{n % 45}", *[f"b{n // 45}"] * (len(labels) - 1)) if labels else () for n in range(2000)]
        samples += len({bounds.key(instrument, one) for one in wild}) * instrument.samples

    assert 0.9 * MAX_SAMPLES < samples <= MAX_SAMPLES


def test_workers_that_die_all_day_add_no_names():
    fleet = Fleet()
    for life in range(100):
        meter = Meter()
        for agent in range(20):
            meter.add("guardproxy.turns", ("acme", f"agent-{life}-{agent}"))
        fleet.put(f"w0.{life}", meter.snapshot(life))
        before = fleet.total().series["guardproxy.turns"]
        fleet.retire(f"w0.{life}")
        after = fleet.total().series["guardproxy.turns"]
        assert after == before

    assert len(after) <= 201
    assert sum(cell[0] for cell in after.values()) == 2000
    assert after["acme", "agent-0-0"] == [1]


def test_a_name_is_kept_whatever_comes_later():
    """A counter that went from its own name to the other would fall, and look like a restart."""
    fleet = Fleet()
    late, early = Meter(), Meter()
    fleet.put("late", late.snapshot(1))
    early.add("guardproxy.turns", ("acme", "first"))
    fleet.put("early", early.snapshot(1))
    assert fleet.total().series["guardproxy.turns"] == {("acme", "first"): [1]}
    for number in range(500):
        late.add("guardproxy.turns", ("acme", f"agent-{number}"))
    fleet.put("late", late.snapshot(2))

    assert fleet.total().series["guardproxy.turns"]["acme", "first"] == [1]


def test_long_and_broken_texts_are_made_fit():
    (text,) = Bounds().key(BY_NAME["guardproxy.shed"], ("\ud800" + "x" * 500,))

    assert text == "?" + "x" * (MAX_CHARS - 1)


def test_what_is_over_the_bound_has_a_place_of_its_own():
    bounds, turns = Bounds(), BY_NAME["guardproxy.cost.usd"]
    keys = [bounds.key(turns, (f"o{n % 60}", f"t{n // 60}", "m")) for n in range(3000)]

    assert len(set(keys)) == MAX_SERIES
    assert keys[-1] == (semconv.OTHER,) * 3
