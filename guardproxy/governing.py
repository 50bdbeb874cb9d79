"""The commands by which it is said who may do what, and read what they did: `guardproxy admin …`, `guardproxy audit`.

They work on the store itself, as `guardproxy sessions` does; `http.entitled` says who may.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from guardproxy.errors import BadAsk, ConfigError

if TYPE_CHECKING:
    from guardproxy.config import Config
    from guardproxy.http.tokens import Keyring
    from guardproxy.store.redis import Store

T = TypeVar("T")

Load = Callable[[argparse.Namespace], "Config"]
Run = Callable[["Config", argparse.Namespace], None]

ROLES = ("viewer", "operator", "owner")
"""Of `store.tokens`, said here so that `guardproxy --help` need not load the store."""


def add(commands: Any, load: Load, config: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the commands to a parser's. `load` reads the configuration, `config` adds the options that say which."""

    def command(group: Any, name: str, run: Run, text: str) -> Any:
        parser = group.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        config(parser)
        parser.set_defaults(needs="owner", about=None, run=lambda given: _done(run, load(given), given))
        return parser

    admin = _group(commands, "admin", "who may use the admin listener")
    first = command(admin, "init", _init, "make the first owner's token and print it, once; refused when there is one")
    first.add_argument("--name", default="owner", help="whose it is (default: owner)")
    _for(first)
    tokens = _group(admin, "tokens", "tokens for the admin listener")
    command(tokens, "list", _list, "list all tokens that were made")
    make = command(tokens, "create", _create, "make a token and print it, once")
    make.add_argument("--name", required=True, help="whose it is: it stands beside everything that is done with it")
    make.add_argument("--role", required=True, choices=ROLES, help="what it may do, each what the ones before it may")
    make.add_argument("--org", default="", help="for this organisation alone")
    _for(make)
    revoke = command(tokens, "revoke", _revoke, "take a token back, everywhere and at once")
    revoke.add_argument("token", metavar="ID")
    revoke.add_argument("--why", default="", metavar="TEXT", help="the reason; kept with it")
    audit = command(commands, "audit", _audit, "list what was changed, by whom, from where")
    audit.set_defaults(needs="viewer", about="")
    audit.add_argument("--actor", default="", metavar="NAME", help="only by this one")
    audit.add_argument("--what", default="", metavar="KIND", help="only this: session, session.pause, token, …")
    audit.add_argument("--subject", default="", metavar="ID", help="only to this session, approval, token")
    audit.add_argument("--org", default="", metavar="ORG", help="only of this organisation")
    audit.add_argument("--since", default="", metavar="TIME", help="only of the last 90m, 12h, 7d, 2w")
    audit.add_argument("--limit", type=int, default=50, metavar="N", help="the newest N (default 50)")
    audit.add_argument("--cursor", default="", metavar="ID", help="those older than this, as the list before says it")
    audit.add_argument("--json", action="store_true", help="one JSON object an entry")


def _group(commands: Any, name: str, text: str) -> Any:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    return parser.add_subparsers(title="commands", required=True, metavar="COMMAND")


def _for(parser: Any) -> None:
    parser.add_argument(
        "--for", dest="span", default="", metavar="TIME", help="how long: 12h, 90d, 2w; default: no end"
    )


def _done(run: Run, config: Config, given: argparse.Namespace) -> int:
    from guardproxy.http import entitled  # noqa: PLC0415 - heavy, as all below

    try:
        about = given.org or given.about if run is _audit else given.about
        given.who = entitled.typist(config, given.needs, about, fresh=run is _init)
        run(config, given)
    except BadAsk as error:  # what was typed is wrong, as with every option
        raise ConfigError(f"--{error.param or ''}: {error.message}") from error
    return 0


def _with_keyring(config: Config, work: Callable[[Keyring], Awaitable[T]], *, fresh: bool = False) -> T:
    from guardproxy import secrets  # noqa: PLC0415
    from guardproxy.http import reach  # noqa: PLC0415
    from guardproxy.http.tokens import Keyring  # noqa: PLC0415

    secret = secrets.find(os.environ, config.data_dir, shared_store=bool(config.store.url))
    key = secrets.derive(secret).key_hash
    return reach.ask(config, lambda store: work(Keyring(store, key)), fresh=fresh)


def _ms(span: str) -> int:
    from guardproxy.http import false_alarm  # noqa: PLC0415

    return false_alarm.milliseconds(span) if span else 0


def _init(config: Config, given: argparse.Namespace) -> None:
    _make(config, given, "owner", "", first=True)


def _create(config: Config, given: argparse.Namespace) -> None:
    _make(config, given, given.role, given.org, first=False)


def _make(config: Config, given: argparse.Namespace, role: str, org: str, *, first: bool) -> None:
    """The token alone goes to the output, so that it can be piped somewhere; what is said about it does not."""
    for_ms = _ms(given.span)

    async def work(keyring: Keyring) -> Any:
        return await keyring.create(given.name, role, given.who, org=org, for_ms=for_ms, first=first)

    made, secret = _with_keyring(config, work, fresh=first)
    print(secret, flush=True)
    ends = f", for {given.span}" if given.span else ""
    told = f"token {made.id}: {made.name}, {role}{f' of {org}' if org else ''}{ends}. It is shown this once; keep it"
    print(f"{told}. Commands read it from GUARDPROXY_ADMIN_TOKEN.", file=sys.stderr)


def _list(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.http import reach, terminal, tokens  # noqa: PLC0415

    async def work(store: Store) -> Any:
        return await store.tokens.every()

    now_ms = time.time_ns() // 1_000_000
    none = "there is no token: the admin listener answers the loopback, without a log-in"
    none = f"{none} ({reach.store_of(config)}; {reach.ELSEWHERE})"
    terminal.show(tokens.HEADS, (tokens.row(one, now_ms) for one in reach.ask(config, work)), none)


def _revoke(config: Config, given: argparse.Namespace) -> None:
    async def work(keyring: Keyring) -> Any:
        return await keyring.revoke(given.token, given.who, why=given.why)

    one = _with_keyring(config, work)
    print(f"token {one.id} ({one.name}, {one.role}) is taken back")


def _audit(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.http import auditing, reach, terminal  # noqa: PLC0415
    from guardproxy.store.audit import Wanted  # noqa: PLC0415

    if given.limit < 1:
        raise BadAsk("must be a number above 0", param="limit")
    since = time.time_ns() // 1_000_000 - _ms(given.since) if given.since else 0
    wanted = Wanted(given.actor, given.what, given.subject, given.who.org or given.org, since_ms=since)

    async def work(store: Store) -> Any:
        return await store.audit.read(given.limit, given.cursor, wanted)

    found, older = reach.ask(config, work)
    if given.json:
        for one in found:
            print(json.dumps(asdict(one)))
    else:
        said = [
            f"--{name} {text}"
            for name in ("actor", "what", "subject", "org", "since")
            if (text := getattr(given, name))
        ]
        none = f"no entry fits {terminal.visible(' '.join(said))}" if said else "nothing was changed"
        terminal.show(auditing.HEADS, auditing.rows(found), reach.nothing(none, config))
    if older:
        print(reach.more(older), file=sys.stderr if given.json else sys.stdout)
