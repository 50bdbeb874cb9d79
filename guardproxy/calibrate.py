"""The command `guardproxy calibrate`: how large finished runs are, the limits that follow, what a policy would do.

Runs come from the store, from a log with decision lines, or from recorded conversations.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardproxy import _regular
from guardproxy.errors import ConfigError

if TYPE_CHECKING:
    from guardproxy.calibrating.fate import Fate, Fates
    from guardproxy.calibrating.figures import Group
    from guardproxy.calibrating.happened import Run
    from guardproxy.config import Config
    from guardproxy.core.policy import Policy
    from guardproxy.replay import Other
    from guardproxy.replaying.told import SessionReport

Load = Callable[[argparse.Namespace], "Config"]

SESSIONS = 2000
"""Runs of the store that are looked at, the newest first."""


@dataclass(frozen=True, slots=True)
class Found:
    """The runs of a source, and what each policy would have done with them, the one in force first."""

    name: str
    runs: Sequence[Run]
    fates: Sequence[Fates]


def add(commands: Any, load: Load, config: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the command to a parser's. `load` reads the configuration, `config` adds the options that say which."""
    text = "say how large finished runs are, what limits follow, and what another policy would have done"
    parser = commands.add_parser("calibrate", help=text, description=text[0].upper() + text[1:] + ".")
    source = "a log of `serve` (JSON), or recorded conversations as for replay; default: what the store still has"
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help=source)
    config(parser)
    parser.add_argument("--org", default="default", metavar="ORG", help="of this org (default: default)")
    parser.add_argument("--agent", metavar="NAME", help="of this agent alone")
    parser.add_argument("--policy", type=Path, metavar="OTHER.yaml", help="judge them by this one, too")
    parser.add_argument("--margin", type=float, default=50, metavar="PERCENT", help="above P95 (default: 50)")
    parser.add_argument("--html", type=Path, metavar="PAGE.html", help="write a page with a plot of each measure")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    parser.set_defaults(run=lambda given: _run(load, given))


def _run(load: Load, given: argparse.Namespace) -> int:
    from guardproxy.calibrating import figures, page, tables  # noqa: PLC0415 - heavy, as all below

    if not 0 <= given.margin <= 1000:
        raise ConfigError("--margin: give percents from 0 to 1000")
    for file in (given.config, given.file):  # both are read more than once
        if file is not None:
            _regular.check(file)
    found = _found(load, given)
    runs = [run for run in found.runs if given.agent in (None, run.agent)]
    if not runs:
        known = ", ".join(sorted({run.agent for run in found.runs})[:5])
        raise ConfigError(
            f"{found.name} has no run" + (f" of agent {given.agent!r}; there are {known}" if known else "")
        )
    policy, margin = _policy(given, given.config), given.margin / 100
    groups = figures.groups(runs, policy.limits, margin)
    if given.html:
        page.write(given.html, found.name, groups, found.fates, margin)
    if given.json:
        print(_json(found, groups))
        return 0
    tables.show(groups, margin, sys.stdout)
    if found.fates:
        tables.compare(found.fates, groups, sys.stdout)
    return 0


def _found(load: Load, given: argparse.Namespace) -> Found:
    from guardproxy.replaying import judged  # noqa: PLC0415
    from guardproxy.telemetry.reading import STDIN  # noqa: PLC0415

    if given.file is None:
        if given.policy:
            raise ConfigError("--policy needs a FILE: the store does not keep the steps of whole runs, logs do")
        return _of_store(load(given), given.org)
    if given.file == STDIN:
        raise ConfigError("calibrate reads its file more than once: give a FILE")
    if judged.is_log(given.file):
        return _of_log(given)
    return _of_recordings(given)


def _of_store(config: Config, org: str) -> Found:
    from guardproxy.calibrating import happened  # noqa: PLC0415
    from guardproxy.http import reach  # noqa: PLC0415
    from guardproxy.store.redis import Store  # noqa: PLC0415
    from guardproxy.telemetry.record import read_record  # noqa: PLC0415

    async def work(store: Store) -> list[Run]:
        runs = []
        for known in await store.list_sessions(org, SESSIONS):
            records = [read_record(raw) for raw in await store.records(org, known.session)]
            if records:
                runs.append(happened.of_records(known.session, records))
        return runs

    return Found(reach.store_of(config, org), reach.ask(config, work), ())


def _of_log(given: argparse.Namespace) -> Found:
    from guardproxy.calibrating import fate, happened  # noqa: PLC0415
    from guardproxy.core.fingerprint import Fingerprinter  # noqa: PLC0415
    from guardproxy.replay import KEY  # noqa: PLC0415
    from guardproxy.replaying import judged  # noqa: PLC0415

    logged = [run for run in judged.read(given.file) if given.org in ("default", run.lines[0].get("org"))]
    runs = [happened.of_lines(run.id, run.lines) for run in logged]

    def under(other: Other) -> list[Fate]:
        printer = Fingerprinter(KEY, other.rules)
        reports = [judged.Judge(one, other.policy, printer).report() for one in logged]
        return [fate.fate(run, report, _turn(report)) for run, report in zip(runs, reports, strict=True)]

    return Found(given.file.name, runs, _fates(given, under, runs))


def _of_recordings(given: argparse.Namespace) -> Found:
    from guardproxy.calibrating import fate, happened  # noqa: PLC0415
    from guardproxy.core.fingerprint import Fingerprinter  # noqa: PLC0415
    from guardproxy.http.prices import Prices  # noqa: PLC0415
    from guardproxy.replay import KEY, sessions_of  # noqa: PLC0415
    from guardproxy.replaying.player import Player  # noqa: PLC0415

    loaded = _config(given, given.config)
    prices = Prices(*loaded.price_table(), loaded.price_list(), unknown="default")
    kept: dict[int, Run] = {}

    def under(other: Other) -> list[Fate]:
        printer, fates = Fingerprinter(KEY, other.rules), []
        for number, session in enumerate(sessions_of(given.file)):
            report = Player(session, other.policy, printer).report()
            run = kept.setdefault(number, happened.of_recording(session, report, prices.rates))
            turn = happened.turn_at(session, report.end.message) if report.end else -1
            fates.append(fate.fate(run, report, turn))
        return fates

    return Found(given.file.name, kept.values(), _fates(given, under, kept.values()))  # type: ignore[arg-type]


def _turn(report: SessionReport) -> int:
    return report.end.message if report.end else -1


def _fates(given: argparse.Namespace, under: Callable[[Other], list[Fate]], runs: Any) -> list[Fates]:
    """The policy in force first, then the other one."""
    from guardproxy.calibrating.fate import sums  # noqa: PLC0415
    from guardproxy.replay import Other  # noqa: PLC0415

    found = []
    for file in (given.config, *([given.policy] if given.policy else ())):
        config = _config(given, file)
        name = str(file) if file else "the defaults"
        fates = under(Other(name, config.policy_value(), config.rules_value()))
        found.append(sums(name, [one for one in fates if given.agent in (None, one.run.agent)]))
    return found


def _config(given: argparse.Namespace, file: Path | None) -> Config:
    from guardproxy import config  # noqa: PLC0415

    needed = ("policy", "tools.", "prices.", "store.data_dir")
    return config.load(file, os.environ, {}, needed=needed)[0]


def _policy(given: argparse.Namespace, file: Path | None) -> Policy:
    return _config(given, file).policy_value()


def _json(found: Found, groups: Sequence[Group]) -> str:
    import orjson  # noqa: PLC0415

    agents = []
    for group in groups:
        rows = {
            one.measure.name: {
                "n": one.sample,
                "percentiles": dict(zip(("p50", "p90", "p95", "p99"), one.percentiles, strict=True)),
                "max": one.largest,
                "limit": one.now,
                "above_limit": one.above_now,
                "proposed": one.proposed,
                "above_proposed": one.above,
                "setting": f"policy.limits.{one.measure.scope}.{one.measure.setting}",
            }
            for one in group.figures
        }
        about = {"agent": group.agent, "outcomes": dict(group.outcomes), "heard": dict(group.heard)}
        agents.append(about | {"estimated": group.estimated, "finished": rows})
    policies = [dataclasses.asdict(one) for one in found.fates]
    return orjson.dumps({"source": found.name, "agents": agents, "policies": policies}).decode()
