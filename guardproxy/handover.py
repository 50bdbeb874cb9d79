"""The commands by which a person takes a run over and gives it back: `guardproxy approvals …` and `sessions …`.

They work on the store itself, as `guardproxy trace` does, whether or not a proxy runs; with `--admin` or `--json` they
ask the admin API (`afar`).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from guardproxy import _extending, afar
from guardproxy.errors import BadAsk, ConfigError

if TYPE_CHECKING:
    from guardproxy.config import Config
    from guardproxy.http.approvals import Desk, Shown
    from guardproxy.http.sealed import Sealer
    from guardproxy.http.sessions import Checkpoint, Run, Runs

T = TypeVar("T")

STEERING = {
    "pause": "hold a run: its requests are answered with who holds it and why",
    "resume": "let a run go on that was paused or ended as a loop; its limits stay",
    "cut": "end a run, the calls under way too",
    "reset": "begin a run anew: open, with a new request span; what it has used stays counted",
}
"""Commands that take a session and a reason, and nothing else."""

Load = Callable[[argparse.Namespace], "Config"]
Run_ = Callable[["Config", argparse.Namespace], None]


def add(commands: Any, load: Load, config: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add both commands to a parser's. `load` reads the configuration, `config` adds the options that say which."""

    def command(group: Any, name: str, run: Run_, text: str, who: str) -> Any:
        parser = group.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        config(parser)
        parser.add_argument("--org", default="default", metavar="ORG", help="of this org (default: default)")
        afar.options(parser)
        if who:
            parser.add_argument("subject", metavar=who)
        parser.set_defaults(needs="operator", verb=name, run=lambda given: _done(run, load(given), given))
        return parser

    _add_approvals(_group(commands, "approvals", "what waits for a person to decide, and deciding it"), command)
    _add_sessions(_group(commands, "sessions", "runs as they stand, and changing that"), command)


def _group(commands: Any, name: str, text: str) -> Any:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(kind=name)
    return parser.add_subparsers(title="commands", required=True, metavar="COMMAND")


def _add_approvals(group: Any, command: Callable[..., Any]) -> None:
    listing = command(group, "list", _list_approvals, "list what waits", "")
    listing.set_defaults(needs="viewer")
    listing.add_argument(
        "--state", default="pending", help="pending (default), approved, denied, answered, expired, any"
    )
    command(group, "show", _show_approval, "show one with all of its content", "ID").set_defaults(needs="viewer")
    approve = _signed(command(group, "approve", _approve, "let the call be made, once", "ID"))
    approve.add_argument("--args", metavar="JSON", help="with these arguments instead of the model's")
    _signed(command(group, "deny", _deny, "refuse the call; the model is told, with your reason", "ID"))
    answer = command(group, "answer", _answer, "answer a question of the model's", "ID")
    answer.add_argument("text", metavar="TEXT")
    answer.add_argument("--by", metavar="NAME", help="who says so; default: you")


def _add_sessions(group: Any, command: Callable[..., Any]) -> None:
    listing = command(group, "list", _list_sessions, "list the runs of the last day", "")
    listing.set_defaults(needs="viewer")
    listing.add_argument("--state", default="", help="only these: active, paused, need_human, waiting, closed")
    listing.add_argument("--agent", default="", metavar="NAME", help="only this agent's, named as in metrics and log")
    listing.add_argument("--limit", type=int, default=50, metavar="N", help="the newest N (default 50)")
    listing.add_argument("--cursor", type=int, default=0, metavar="N", help="those behind the newest N")
    command(group, "show", _show_session, "show a run, and who changed it, when and why", "SESSION").set_defaults(
        needs="viewer"
    )
    for verb, text in STEERING.items():
        _signed(command(group, verb, _steer, text, "SESSION"))
    extend = _signed(command(group, "extend", _extend, "raise a run's limits; it goes on at the same turn", "SESSION"))
    _extending.options(extend)
    kept = command(group, "checkpoint", _checkpoint, "print the messages of a run's last request as JSON", "SESSION")
    kept.add_argument("--take", type=int, metavar="GENERATION", help="go on from it: a second one to do so is refused")
    kept.add_argument("--out", type=Path, metavar="FILE.json", help="write them there, readable by you alone")
    kept.add_argument("--by", metavar="NAME", help="who takes it; default: you")


def _signed(parser: Any) -> Any:
    parser.add_argument("--why", default="", metavar="TEXT", help="the reason; kept with it")
    parser.add_argument("--by", metavar="NAME", help="who says so; default: you")
    return parser


def _done(run: Run_, config: Config, given: argparse.Namespace) -> int:
    from guardproxy.http import entitled  # noqa: PLC0415 - heavy, as all below

    try:
        if afar.wanted(given):
            afar.run(config, given, given.kind, given.verb)
            return 0
        given.who = entitled.typist(config, given.needs, given.org, getattr(given, "by", None) or "")
        run(config, given)
    except BadAsk as error:  # what was typed is wrong, as with every option
        name = error.param or ""
        raise ConfigError(f"{_extending.OPTIONS.get(name, f'--{name}')}: {error.message}") from error
    return 0


def _with_desk(config: Config, org: str, work: Callable[[Desk], Awaitable[T]], *, reads: bool = True) -> T:
    """Do `work`. `reads`: it needs the content, and so the secret."""
    from guardproxy.http import reach, verdict  # noqa: PLC0415
    from guardproxy.http.approvals import Desk  # noqa: PLC0415

    sealer = _sealer(config, reads=reads)
    rules = verdict.forbidden(config.policy_value())
    return reach.ask(config, lambda store: work(Desk(store, sealer, org, lambda: rules)))


def _decide(
    config: Config,
    given: argparse.Namespace,
    said: str,
    work: Callable[[Desk], Awaitable[Shown]],
    *,
    reads: bool = True,
) -> None:
    """Decide, write into the audit who did, and say what was decided and what happens next."""
    from guardproxy.http import approvals, auditing  # noqa: PLC0415

    async def noted(desk: Desk) -> Shown:
        before = await desk.shown(given.subject)
        after = await work(desk)
        diff = auditing.changed(approvals.facts(before), approvals.facts(after))
        entry = given.who.did(f"approval.{after.approval.state}", after.approval.id, diff=diff)
        await desk.note(entry, getattr(given, "why", ""))
        return after

    one = _with_desk(config, given.org, noted, reads=reads).approval
    print(f"approval {one.id}: {said.format(by=one.by, tool=one.tool)}; {approvals.what_next(one)}")


def _with_runs(config: Config, org: str, work: Callable[[Runs], Awaitable[T]], *, reads: bool | None = False) -> T:
    from guardproxy.http import reach  # noqa: PLC0415
    from guardproxy.http.sessions import Runs  # noqa: PLC0415

    sealer = _sealer(config, reads=reads)
    return reach.ask(config, lambda store: work(Runs(store, sealer, org)))


def _change(
    config: Config, given: argparse.Namespace, what: str, work: Callable[[Runs], Awaitable[Run]], **more: object
) -> Run:
    """Change a run, and write into the audit who did, and what."""
    from guardproxy.http import auditing, sessions  # noqa: PLC0415

    async def noted(runs: Runs) -> Run:
        before = await runs.shown(given.subject)
        run = await work(runs)
        diff = {**auditing.changed(sessions.facts(before), sessions.facts(run)), **auditing.changed({}, more)}
        entry = given.who.did(f"session.{what}", run.known.session, diff=diff)
        await runs.note(entry, given.why)
        return run

    return _with_runs(config, given.org, noted)


def _sealer(config: Config, *, reads: bool | None) -> Sealer:
    """What opens the content. False: nothing, and no secret is asked for. None: nothing where there is no secret."""
    from guardproxy import secrets  # noqa: PLC0415
    from guardproxy.http.sealed import Sealer  # noqa: PLC0415

    with nullcontext() if reads else suppress(ConfigError):
        if reads is not False:
            found = secrets.find(os.environ, config.data_dir, shared_store=bool(config.store.url))
            return Sealer(secrets.derive(found).ledger)
    return Sealer(os.urandom(32))


def _reads(given: argparse.Namespace) -> bool:
    """Whether content is for them: for a viewer it is not."""
    return bool(given.who.role != "viewer")


def _list_approvals(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.http import approvals, reach, terminal  # noqa: PLC0415

    state = "" if given.state == "any" else given.state

    async def work(desk: Desk) -> tuple[list[approvals.Shown], list[str]]:
        return await desk.listed(state), [] if given.who.org else await desk.elsewhere(state)

    found, others = _with_desk(config, given.org, work, reads=_reads(given))
    now_ms = round(time.time() * 1000)
    none = "nothing waits for a person" if state == "pending" else f"no approval is {state or 'kept'}"
    rows = (approvals.row(one, now_ms) for one in found)
    terminal.show(approvals.HEADS, rows, reach.nothing(none, config, given.org))
    if other := reach.others("approvals of other organisations", others):
        print(other)


def _show_approval(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.http import approvals  # noqa: PLC0415

    shown = _with_desk(config, given.org, lambda desk: desk.shown(given.subject), reads=_reads(given))
    print("\n".join(approvals.paragraphs(shown)))


def _approve(config: Config, given: argparse.Namespace) -> None:
    said = "{by} approves {tool} with edited arguments" if given.args is not None else "{by} approves {tool}"
    _decide(config, given, said, lambda desk: desk.approve(given.subject, given.who.name, given.why, given.args))


def _deny(config: Config, given: argparse.Namespace) -> None:
    said = "{by} denies {tool}"
    _decide(config, given, said, lambda desk: desk.deny(given.subject, given.who.name, given.why), reads=False)


def _answer(config: Config, given: argparse.Namespace) -> None:
    _decide(config, given, "answered by {by}", lambda desk: desk.answer(given.subject, given.who.name, given.text))


def _list_sessions(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.http import in_words, reach, terminal  # noqa: PLC0415

    part, (state, agent), whole = afar.part(given), (given.state, given.agent), not given.who.org
    work = partial(in_words.listing, state=state, part=part, agent=agent, whole=whole)
    found, said = _with_runs(config, given.org, work)
    of = f" of agent {terminal.visible(agent)}" if agent else ""
    none = f"no {'further ' if part[1] else ''}run of the last day{of}{f' is {state}' if state else ''}"
    terminal.show(in_words.HEADS, (in_words.row(run) for run in found), reach.nothing(none, config, given.org))
    for line in said:
        print(line)


def _show_session(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.http import in_words, reach  # noqa: PLC0415

    run = _with_runs(config, given.org, lambda runs: runs.shown(given.subject), reads=_reads(given) and None)
    print("\n".join(in_words.paragraphs(run, reach.options(given.config, given.data_dir, given.org))))


def _steer(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.http import in_words, sessions  # noqa: PLC0415

    by = given.who.name
    run = _change(config, given, given.verb, lambda runs: runs.act(given.verb, given.subject, by, given.why))
    print(f"session {in_words.name(run)} {sessions.VERBS[given.verb]}")


def _extend(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.http import in_words, people  # noqa: PLC0415

    amounts = _extending.amounts(given)
    people.amounts(amounts)  # what was typed is looked at before the store is
    by = given.who.name
    run = _change(config, given, "extend", lambda runs: runs.extend(given.subject, by, given.why, amounts), **amounts)
    print(f"session {in_words.name(run)} has more ({_extending.told(given)}); it is {run.known.state}")


def _checkpoint(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.http import sessions, terminal  # noqa: PLC0415

    by, draft = given.who.name, given.out and given.out.with_name(f"{given.out.name}.part")

    async def work(runs: Runs) -> Checkpoint:
        """Whoever takes it has it: it is taken when it is written."""
        kept = await runs.checkpoint(given.subject)
        if draft:
            terminal.keep(draft, sessions.kept_json(kept) + b"\n")
        if given.take is None:
            return kept
        taken = await runs.take(given.subject, given.take, by)
        await runs.note(given.who.did("session.checkpoint", taken.session, diff={"taken": (None, given.take)}))
        return taken

    try:
        kept = _with_runs(config, given.org, work, reads=True)
        if draft:
            draft.replace(given.out)
            print(f"generation {kept.generation} of session {terminal.visible(kept.session)} is in {given.out}")
        else:
            sys.stdout.buffer.write(sessions.kept_json(kept) + b"\n")
            sys.stdout.flush()
    finally:
        if draft:
            draft.unlink(missing_ok=True)
