"""Snapshots: merged, carried as JSON, kept when their worker is gone."""

from __future__ import annotations

import pytest

from guardproxy.telemetry import Fleet, Snapshot, merge
from guardproxy.telemetry.metrics import Meter, RunMetrics
from tests.telemetry.reports import life

TURNS = "guardproxy.turns"


def snapshot(times: int = 1, *, active: float = 0) -> Snapshot:
    meter = Meter(started_ns=5)
    for _ in range(times):
        for report in life():
            RunMetrics(meter).turn(report, ())
    meter.put("guardproxy.sessions.active", ("active",), active)
    meter.put("guardproxy.requests.in_flight", (), active)
    return meter.snapshot(9)


def test_json_round_trip():
    before = snapshot()

    assert Snapshot.from_json(before.to_json()) == before


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b'{"v": 2}', b'{"v": 1}', b'{"v":1,"started_ns":0,"taken_ns":0,"series":{"a":[1]}}'],
)
def test_other_bytes_are_refused(data):
    with pytest.raises(ValueError):
        Snapshot.from_json(data)


def test_merging_adds_up():
    both, expected = merge([snapshot(1), snapshot(2)]), snapshot(3)

    assert both.series.keys() == expected.series.keys()
    for name, rows in expected.series.items():
        assert both.series[name].keys() == rows.keys()
        assert all(both.series[name][labels] == pytest.approx(row) for labels, row in rows.items())
    assert (both.started_ns, both.taken_ns) == (5, 9)


def test_gauges_merge_as_their_instrument_says():
    both = merge([snapshot(active=3), snapshot(active=4)]).series

    assert both["guardproxy.sessions.active"]["active",] == [4]
    assert both["guardproxy.requests.in_flight"][()] == [7]


def test_merging_leaves_its_parts_alone():
    one = snapshot()
    merge([one, snapshot()])
    merge([one])

    assert one == snapshot()


@pytest.mark.parametrize(
    "series",
    [
        {"guardproxy.of.a.later.version": {(): [1.0]}},
        {TURNS: {("one label",): [1.0]}},
        {TURNS: {("a", "b"): [1.0, 2.0]}},
    ],
    ids=["name", "labels", "width"],
)
def test_what_another_version_counts_is_left_out(series):
    strange = Snapshot(1, 2, series)

    assert merge([snapshot(), strange]).series == merge([snapshot()]).series


def test_no_counter_falls_when_a_worker_dies():
    fleet = Fleet()
    fleet.put("1", snapshot(2, active=5))
    fleet.put("2", snapshot(1, active=1))
    before = fleet.total().series
    fleet.retire("1")
    fleet.put("3", Meter(started_ns=7).snapshot(8))
    after = fleet.total().series

    assert after[TURNS] == before[TURNS]
    assert after["guardproxy.sessions.active"]["active",] == [1]
    fleet.retire("unknown")
    fleet.put("3", snapshot(1))
    assert fleet.total().series[TURNS]["acme", "codex"] == [28]
    assert fleet.total(snapshot(1)).series[TURNS]["acme", "codex"] == [35]


ONE = ("0" * 31 + "1", "0" * 15 + "1")


def seen(at_ns: int, value: float) -> Snapshot:
    meter = Meter()
    meter.observe("guardproxy.session.turns", ("cut",), value)
    meter.exemplify("guardproxy.session.turns", ("cut",), value, (value, at_ns, *ONE))
    return meter.snapshot(1)


def test_exemplars_are_carried_and_the_newest_of_a_bucket_stays():
    carried = [Snapshot.from_json(one.to_json()) for one in (seen(5, 3), seen(9, 4), seen(7, 3), seen(1, 100))]
    (found,) = merge(carried).exemplars["guardproxy.session.turns"].values()

    assert sorted(found.values()) == [(4, 9, *ONE), (100, 1, *ONE)]


def test_exemplars_of_a_dead_worker_stay():
    fleet = Fleet()
    fleet.put("1", seen(5, 3))
    fleet.retire("1")

    assert fleet.total().exemplars == seen(5, 3).exemplars


def test_a_gauge_forgets_what_is_no_more():
    meter = Meter()
    meter.replace("guardproxy.sessions.active", {("active",): 4.0, ("paused",): 1.0})
    meter.replace("guardproxy.sessions.active", {("active",): 2.0})

    assert meter.snapshot(1).series["guardproxy.sessions.active"] == {("active",): [2]}
