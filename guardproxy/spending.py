"""The commands about what is spent: `guardproxy budgets …` and `guardproxy usage`. Clients of the admin API."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from guardproxy.core.commands import of
from guardproxy.errors import BadAsk, ConfigError

if TYPE_CHECKING:
    from guardproxy.config import Config
    from guardproxy.http.asking import Admin

Load = Callable[[argparse.Namespace], "Config"]
Run = Callable[["Admin", argparse.Namespace], None]

SCOPES = ("org", "team", "key", "user", "model")
DIMENSIONS = ("cost_usd", "input_tokens", "output_tokens", "total_tokens", "requests", "concurrent_requests")
WINDOWS = ("minute", "hour", "day", "week", "month", "total")
"""As in the configuration, said here so that `guardproxy --help` need not load it."""

BY = ("day", "team", "key", "user", "model", "agent")
"""What rows of usage may be told apart by."""


def add(commands: Any, load: Load, config: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the commands to a parser's. `load` reads the configuration, `config` adds the options that say which."""

    def command(group: Any, name: str, run: Run, text: str) -> Any:
        parser = group.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        config(parser)
        asked = "the admin listener to ask; default: of the proxy on this data directory, else the store itself"
        parser.add_argument("--admin", default="", metavar="URL", help=asked)
        parser.add_argument("--org", default="default", metavar="ORG", help="the org (default: default)")
        parser.set_defaults(run=lambda given: _done(run, load(given), given), by="")
        return parser

    text = "what may be spent, by whom, in which window"
    budgets = commands.add_parser("budgets", help=text, description=text[0].upper() + text[1:] + ".")
    group = budgets.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _json(command(group, "list", _list, "list the budgets of an org, its teams and keys"))
    show = _json(command(group, "show", _show, "show a budget, and how it stands for each that it is for"))
    set_ = command(group, "set", _set, "set a budget, in the place of one that counts the same")
    remove = command(group, "remove", _remove, "take a budget away; what was used stays counted")
    for parser in (set_, remove):
        parser.add_argument("--by", default="", metavar="NAME", help="who does it; default: you")
    for parser in (show, remove):
        parser.add_argument("budget", metavar="BUDGET", help="its id, as in the list")
    _about(set_)
    _usage(command(commands, "usage", _tell, "what was used, by day, team, key, user, model and agent"))


def _json(parser: Any) -> Any:
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def _about(parser: Any) -> None:
    parser.add_argument("dimension", choices=DIMENSIONS, help="what is counted")
    parser.add_argument("limit", type=float, metavar="LIMIT", help="in dollars, tokens or requests")
    parser.add_argument("--per", choices=WINDOWS, help="the window; concurrent requests have none")
    parser.add_argument("--team", default="", metavar="TEAM", help="a budget of this team; default: of the org")
    parser.add_argument("--key", default="", metavar="KEY", help="a budget of this key")
    parser.add_argument("--scope", choices=SCOPES, help="whom it is for; default: the org, team or key itself")
    parser.add_argument("--match", default="*", metavar="PATTERN", help="names of that scope; default: all")
    parser.add_argument("--timezone", default="UTC", metavar="ZONE", help="where days begin, such as Europe/Berlin")
    parser.add_argument("--soft", type=int, action="append", metavar="PERCENT", help="only said; again for more")


def _usage(parser: Any) -> None:
    parser.add_argument("--month", default="", metavar="YYYY-MM", help="which; default: this one (of UTC)")
    parser.add_argument("--since", default="", metavar="DAY", help="from this day, such as 2026-11-30")
    parser.add_argument("--until", default="", metavar="DAY", help="to this day")
    parser.add_argument("--group", default="", metavar="NAMES", help=f"some of {','.join(BY)}; default: team,key,model")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="as CSV, with all that is counted, row by row")
    form.add_argument("--json", action="store_true", help="as JSON lines")


OPTIONS = {"limit": "LIMIT", "dimension": "the dimension", "window": "--per", "of": "--team or --key", "by": "--group"}
"""How a field is named on the command line, where it is not `--<field>`."""


def _done(run: Run, config: Config, given: argparse.Namespace) -> int:
    from guardproxy.http import asking  # noqa: PLC0415 - heavy, as all below

    try:
        run(asking.admin(config, given.admin, given.by), given)
    except BadAsk as error:  # what was typed is wrong, as with every option
        name = (error.param or "").partition(".")[0]
        raise ConfigError(f"{OPTIONS.get(name, f'--{name}')}: {error.message}") from error
    return 0


# ------------------------------------------------------------------------------------------------------------ budgets


def _list(admin: Admin, given: argparse.Namespace) -> None:
    from guardproxy.http import asking, terminal  # noqa: PLC0415

    found = asking.pages(admin, "/budgets", {"org": given.org})
    if given.json:
        print(json.dumps(list(found), ensure_ascii=False, indent=2))
        return
    heads = ("budget", "of", "for", "counted", "window", "limit", "used", "held", "resets", "soft")
    none = f"org {given.org} has no budget; guardproxy budgets set{of(given.org)} makes one"
    terminal.show(heads, map(_row, found), none)


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    from guardproxy.http import terminal  # noqa: PLC0415

    whom = one["scope"] if one["match"] == "*" else f"{one['scope']} {one['match']}"
    window = one["window"] or "now"
    window += f" ({one['timezone']})" if one["timezone"] != "UTC" else ""
    soft = ", ".join(_soft(percent, one) for percent in one["soft"])
    amounts = (_amount(one["limit"]), _amount(one["used"]), _amount(one["held"]))
    said = (one["of"], terminal.visible(whom), one["dimension"], window)
    return (one["id"], *said, *amounts, _at(one["resets_ms"]), soft)


def _soft(percent: int, one: Mapping[str, Any]) -> str:
    """A soft limit, and whether it is passed, where there is one counter for it."""
    passed = one["used"] is not None and one["used"] * 100 >= percent * one["limit"]
    return f"{percent} %{' passed' if passed else ''}"


def _show(admin: Admin, given: argparse.Namespace) -> None:
    from guardproxy.http import asking, terminal  # noqa: PLC0415

    one = admin.ask("GET", f"/budgets/{asking.named(given.budget)}", {"org": given.org})
    if given.json:
        print(json.dumps(one, ensure_ascii=False, indent=2))
        return
    _print(one)
    if one["used"] is None:
        rows = (
            (terminal.visible(who["name"]), _amount(who["used"]), _amount(who["held"]), _amount(who["left"]))
            for who in one["standing"]
        )
        terminal.show((one["scope"], "used", "held", "left"), rows, "nobody has used anything of it")


def _print(one: Mapping[str, Any]) -> None:
    heads = ("budget", "of", "for", "counted", "window", "limit", "used", "held", "resets", "soft")
    for head, text in zip(heads, _row(one), strict=True):
        if text:
            print(f"{head:<8} {text}")


def _set(admin: Admin, given: argparse.Namespace) -> None:
    if given.team and given.key:
        raise ConfigError("--team and --key: give one of them")
    of = f"team:{given.team}" if given.team else f"key:{given.key}" if given.key else "org"
    body = {"of": of, "scope": given.scope or of.partition(":")[0], "dimension": given.dimension}
    body |= {"limit": given.limit, "match": given.match, "timezone": given.timezone, "soft": given.soft or []}
    body |= {"window": given.per} if given.per else {}
    _print(admin.ask("PUT", "/budgets", {"org": given.org}, body))
    print("it holds within 2 s everywhere")


def _remove(admin: Admin, given: argparse.Namespace) -> None:
    from guardproxy.http import asking  # noqa: PLC0415

    one = admin.ask("DELETE", f"/budgets/{asking.named(given.budget)}", {"org": given.org})
    print(f"budget {one['id']} of {one['of']} ({one['dimension']}) is gone; what was used stays counted")


# -------------------------------------------------------------------------------------------------------------- usage


def _tell(admin: Admin, given: argparse.Namespace) -> None:
    from guardproxy.http import asking, terminal  # noqa: PLC0415

    whole = given.csv or given.json
    by = given.group or ("" if whole else "team,key,model")
    query = {"org": given.org, "by": by, "month": given.month, "since": given.since, "until": given.until}
    found = asking.pages(admin, "/usage", query)
    names = ["org", *([name.strip() for name in by.split(",")] if by else BY)]
    if given.csv:
        _csv(found, names)
    elif given.json:
        for one in found:
            print(json.dumps(one, ensure_ascii=False))
    else:
        rows = (_told(one, names) for one in found)
        heads = (*names, "requests", "input", "output", "cost", "interventions", "denied", "saved")
        terminal.show(heads, rows, f"org {given.org} has used nothing then")


def _csv(found: Any, names: list[str]) -> None:
    out = csv.writer(sys.stdout, lineterminator="\n")
    sums: list[str] = []
    for one in found:
        if not sums:
            sums = [name for name in one if name not in ("org", *BY)]
            out.writerow([*names, *sums])
        out.writerow([*(_plain(str(one[name] or "")) for name in names), *(_figure(one[name]) for name in sums)])


def _plain(text: str) -> str:
    """A text that a table program would take for a formula stays a text."""
    return f"'{text}" if text and text[0] in "=+-@\t\r" else text


def _figure(amount: object) -> str:
    return f"{amount:.6f}" if isinstance(amount, float) else str(amount)


def _told(one: Mapping[str, Any], names: list[str]) -> tuple[str, ...]:
    from guardproxy.http import terminal  # noqa: PLC0415

    who = [terminal.visible(one[name] or "-") for name in names]
    counts = [f"{one[name]:,}" for name in ("requests", "input_tokens", "output_tokens")]
    more = [f"{one[name]:,}" for name in ("interventions", "denied")]
    return (*who, *counts, f"${one['cost_usd']:,.4f}", *more, f"${one['saved_usd']:,.4f}")


def _amount(amount: float | None) -> str:
    return "" if amount is None else f"{amount:,.4f}".rstrip("0").rstrip(".")


def _at(at_ms: int | None) -> str:
    from guardproxy.core.scoped_exemption import moment  # noqa: PLC0415

    return moment(at_ms) if at_ms else "never"
