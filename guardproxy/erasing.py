"""The command `guardproxy erase`: what is kept of a run, a user or an organisation goes. A client of the admin API."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from guardproxy.errors import BadAsk, ConfigError

if TYPE_CHECKING:
    from guardproxy.config import Config

Load = Callable[[argparse.Namespace], "Config"]

DEFAULT = "default"
"""The org of `--session` and `--user` where none is said; `core.tenant` says it, too."""


HEADS = {
    "runs": "runs",
    "entries": "entries of the store",
    "virtual_keys": "virtual keys",
    "usage_rows": "rows of usage without the name now",
}
"""What is told of an answer."""


def add(commands: Any, load: Load, config: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the command to a parser's. `load` reads the configuration, `config` adds the options that say which."""
    text = "erase what is kept of a run, a user or an organisation; what was spent stays counted"
    parser = commands.add_parser("erase", help=text, description=text[0].upper() + text[1:] + ".")
    config(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--session", metavar="SESSION", help="this run, as in x-guardproxy-session-id")
    what.add_argument("--user", metavar="USER", help="all runs that this user had a part in")
    parser.add_argument("--org", metavar="ORG", help="where; alone: all of this organisation, its keys and teams too")
    parser.add_argument("--yes", action="store_true", help="do not ask whether it is meant")
    parser.add_argument("--why", default="", metavar="TEXT", help="the reason; kept in the audit")
    parser.add_argument("--by", default="", metavar="NAME", help="who does it; default: you")
    asked = "the admin listener to ask; default: of the proxy on this data directory, else the store itself"
    parser.add_argument("--admin", default="", metavar="URL", help=asked)
    parser.set_defaults(run=lambda given: _run(load, given))


def _run(load: Load, given: argparse.Namespace) -> int:
    from guardproxy.http import asking, terminal  # noqa: PLC0415 - heavy

    said = {name: text for name in ("session", "user") if (text := getattr(given, name)) is not None}
    body = said or ({"org": given.org} if given.org is not None else {})
    if not body:
        raise ConfigError("erase: say what: --session, --user, or --org alone")
    ((what, name),) = body.items()
    org = DEFAULT if given.org is None else given.org
    of = "" if what == "org" else f" of org {terminal.visible(org)}"
    shown = f"{'run' if what == 'session' else what} {terminal.visible(name)}{of}"
    config = load(given)
    if not given.yes and not _meant(shown):
        print("nothing was erased")
        return 1
    why = {"why": given.why} if given.why else {}
    try:
        done = asking.admin(config, given.admin, given.by).ask("POST", "/erase", {"org": org}, body | why)
    except BadAsk as error:
        raise ConfigError(f"--{error.param or what}: {error.message}") from error
    told = ", ".join(f"{head}: {done[name]}" for name, head in HEADS.items() if done[name])
    print(f"{shown} is erased ({told})")
    return 0


def _meant(shown: str) -> bool:
    """Whether a person says so; where there is none, it has to be said with --yes."""
    if not sys.stdin.isatty():
        raise ConfigError(f"erase {shown}: nothing of it can be brought back; say --yes if it is meant")
    print(f"All that is kept of {shown} will be gone, and cannot be brought back. Type yes: ", end="", flush=True)
    return sys.stdin.readline().strip().lower() == "yes"
