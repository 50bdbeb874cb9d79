"""The commands by which an operator says who may use the proxy: `guardproxy orgs …`, `teams …` and `keys …`.

They ask the admin API of the proxy that runs (`http.asking`); without one they do the same on the store itself. Workers
know within 2 s.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from guardproxy.core.commands import of
from guardproxy.errors import BadAsk, ConfigError, GuardError

if TYPE_CHECKING:
    from guardproxy.config import Config
    from guardproxy.http.asking import Admin

Load = Callable[[argparse.Namespace], "Config"]
Run = Callable[["Admin", argparse.Namespace], None]

OPTIONS = {
    "models": "--model",
    "routes": "--route",
    "upstreams": "--upstream",
    "user_header": "--user-header",
    "name": "NAME or --name",
    "key": "KEY",
    "id": "KEY",
}
"""How a field is named on the command line, where it is not `--<field>`."""

FIELDS = ("name", "models", "routes", "upstreams", "policy", "user_header", "expires")
"""What `keys create` and `keys update` say of a key."""


def add(commands: Any, load: Load, config: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the commands to a parser's. `load` reads the configuration, `config` adds the options that say which."""

    def command(group: Any, name: str, run: Run, text: str, who: str) -> Any:
        parser = group.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        config(parser)
        asked = "a proxy's admin listener; default: that of the proxy on this data directory, else the store itself"
        parser.add_argument("--admin", default="", metavar="URL", help=asked)
        parser.add_argument("--by", default="", metavar="NAME", help="who does it; default: you")
        if who:
            parser.add_argument("subject", metavar=who)
        if who == "KEY":  # its id says which it is
            parser.add_argument("--org", default="", metavar="ORG", help="the org that it must be of; default: any")
        parser.set_defaults(run=lambda given: _done(run, load(given), given))
        return parser

    _add_orgs(_group(commands, "orgs", "organisations: who may use the proxy"), command)
    _add_teams(_group(commands, "teams", "teams of an organisation"), command)
    _add_keys(_group(commands, "keys", "virtual keys, by which agents are known"), command)


def _group(commands: Any, name: str, text: str) -> Any:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    return parser.add_subparsers(title="commands", required=True, metavar="COMMAND")


def _add_orgs(group: Any, command: Callable[..., Any]) -> None:
    command(group, "list", _list_orgs, "list the orgs", "")
    command(group, "create", _make_org, "make an org", "ORG")
    for verb, text in (("enable", "let the keys of an org be used again"), ("disable", "refuse all keys of an org")):
        command(group, verb, _switch_org, text, "ORG").set_defaults(on=verb == "enable")
    command(group, "delete", _delete_org, "forget an org that has no teams and keys", "ORG")


def _add_teams(group: Any, command: Callable[..., Any]) -> None:
    parsers = [command(group, "list", _list_teams, "list the teams of an org", "")]
    parsers.append(command(group, "create", _make_team, "make a team", "TEAM"))
    for verb, text in (("enable", "let the keys of a team be used again"), ("disable", "refuse all keys of a team")):
        parsers.append(command(group, verb, _switch_team, text, "TEAM"))
        parsers[-1].set_defaults(on=verb == "enable")
    parsers.append(command(group, "delete", _delete_team, "forget a team that has no keys", "TEAM"))
    for parser in parsers:
        _of(parser)


def _add_keys(group: Any, command: Callable[..., Any]) -> None:
    _of(command(group, "list", _list_keys, "list the keys of an org", ""))
    make = _of(_about(command(group, "create", _make_key, "make a key; its secret is shown once", "")))
    make.add_argument("--team", default="", metavar="TEAM", help="the team that it belongs to")
    command(group, "show", _show_key, "show a key", "KEY")
    _about(command(group, "update", _change_key, "change what a key may do", "KEY"))
    for verb, text in (("enable", "let a key be used again"), ("disable", "refuse a key, within 2 s everywhere")):
        command(group, verb, _switch_key, text, "KEY").set_defaults(on=verb == "enable")
    rotate = command(group, "rotate", _rotate_key, "give a key a new secret, shown once", "KEY")
    rotate.add_argument(
        "--overlap", default="1d", metavar="TIME", help="how long the old one holds: 0, 90m, 1d (default)"
    )
    rotate.add_argument("--quiet", "-q", action="store_true", help="print the secret and nothing else")
    make.add_argument("--quiet", "-q", action="store_true", help="print the secret and nothing else")
    command(group, "delete", _delete_key, "forget a key", "KEY")


def _of(parser: Any) -> Any:
    parser.add_argument("--org", default="default", metavar="ORG", help="the org (default: default)")
    return parser


def _about(parser: Any) -> Any:
    parser.add_argument("--name", metavar="TEXT", help="what people call it")
    for option, text in (
        ("model", "a model that it may use, * and ? allowed; again for more; '' = all"),
        (
            "route",
            "a route passed on unread, such as /v1/rerank; again for more, in the place of those it has; '' = none",
        ),
        ("upstream", "an upstream that it may use; '' = all"),
    ):
        parser.add_argument(f"--{option}", dest=f"{option}s", action="append", metavar="PATTERN", help=text)
    parser.add_argument("--policy", metavar="NAME", help="the policy that holds for it")
    parser.add_argument("--user-header", metavar="HEADER", help="the header that names the end user; '' = none may")
    parser.add_argument("--expires", metavar="WHEN", help="a span from now (90d), a date (2027-01-31), or never")
    return parser


def _done(run: Run, config: Config, given: argparse.Namespace) -> int:
    from guardproxy.http import asking  # noqa: PLC0415 - heavy, as all below

    try:
        run(asking.admin(config, given.admin, given.by), given)
    except BadAsk as error:  # what was typed is wrong, as with every option
        name = (error.param or "").partition(".")[0]
        raise ConfigError(f"{OPTIONS.get(name, f'--{name}')}: {error.message}") from error
    return 0


def _path(kind: str, given: argparse.Namespace, verb: str = "") -> str:
    from guardproxy.http import asking  # noqa: PLC0415

    return f"/{kind}/{asking.named(given.subject)}{verb}"


def _key(admin: Admin, given: argparse.Namespace, verb: str = "") -> str:
    """The path of a key, which is of the org that was named."""
    if given.org and admin.ask("GET", _path("keys", given))["org"] != given.org:
        raise GuardError(f"org {given.org} has no key {given.subject!r}", status=404, code="not_found")
    return _path("keys", given, verb)


def _table(admin: Admin, path: str, query: Mapping[str, str], none: str) -> None:
    from guardproxy.http import asking, terminal  # noqa: PLC0415

    found = asking.pages(admin, path, query)
    rows = ((one["name"], _on(one), _at(one["made_ms"]), terminal.visible(one["made_by"])) for one in found)
    terminal.show((path[1:-1], "state", "made", "by"), rows, none)


def _list_orgs(admin: Admin, given: argparse.Namespace) -> None:
    _table(admin, "/orgs", {}, "there is no org but the default one")


def _make_org(admin: Admin, given: argparse.Namespace) -> None:
    name = admin.ask("POST", "/orgs", body={"name": given.subject})["name"]
    print(f"org {name} is made; its first key: guardproxy keys create --org {name}")


def _switch_org(admin: Admin, given: argparse.Namespace) -> None:
    org = admin.ask("PATCH", _path("orgs", given), body={"enabled": given.on})
    print(f"the keys of org {org['name']} are {'used again' if given.on else 'refused'}, within 2 s everywhere")


def _delete_org(admin: Admin, given: argparse.Namespace) -> None:
    print(f"org {admin.ask('DELETE', _path('orgs', given))['name']} is forgotten")


def _list_teams(admin: Admin, given: argparse.Namespace) -> None:
    _table(admin, "/teams", {"org": given.org}, f"org {given.org} has no team")


def _make_team(admin: Admin, given: argparse.Namespace) -> None:
    team = admin.ask("POST", "/teams", {"org": given.org}, {"name": given.subject})
    print(f"team {team['name']} of org {team['org']} is made")


def _switch_team(admin: Admin, given: argparse.Namespace) -> None:
    team = admin.ask("PATCH", _path("teams", given), {"org": given.org}, {"enabled": given.on})
    print(f"the keys of team {team['name']} are {'used again' if given.on else 'refused'}, within 2 s everywhere")


def _delete_team(admin: Admin, given: argparse.Namespace) -> None:
    print(f"team {admin.ask('DELETE', _path('teams', given), {'org': given.org})['name']} is forgotten")


def _list_keys(admin: Admin, given: argparse.Namespace) -> None:
    from guardproxy.http import asking, terminal  # noqa: PLC0415

    keys = asking.pages(admin, "/keys", {"org": given.org})
    none = f"org {given.org} has no key; guardproxy keys create{of(given.org)} makes one"
    heads = ("key", "secret", "name", "team", "state", "expires", "models", "made", "by")
    terminal.show(heads, (_row(one) for one in keys), none)


def _row(key: Mapping[str, Any]) -> tuple[str, ...]:
    from guardproxy.http import terminal  # noqa: PLC0415

    secrets = ", ".join(one["shown"] for one in key["secrets"])
    who = (
        key["id"],
        secrets,
        terminal.visible(key["name"]),
        key["team"] or "",
        _on(key),
        _at(key["expires_ms"], "never"),
    )
    return (*who, ", ".join(key["models"]) or "all", _at(key["made_ms"]), terminal.visible(key["made_by"]))


def _make_key(admin: Admin, given: argparse.Namespace) -> None:
    team = {"team": given.team} if given.team else {}
    _told(admin.ask("POST", "/keys", {"org": given.org}, team | _fields(given)), given)


def _rotate_key(admin: Admin, given: argparse.Namespace) -> None:
    from guardproxy.http.keyring import span_ms  # noqa: PLC0415

    overlap = span_ms("overlap", given.overlap) // 1000
    _told(admin.ask("POST", _key(admin, given, "/rotate"), body={"overlap_seconds": overlap}), given)


def _told(made: Mapping[str, Any], given: argparse.Namespace) -> None:
    if given.quiet:
        print(made["secret"])
        return
    print(f"key {made['id']} of org {made['org']}: its secret is shown once, now:\n  {made['secret']}")
    for one in made["secrets"][1:]:
        print(f"the secret {one['shown']} holds until {_at(one['until_ms'])}")


def _show_key(admin: Admin, given: argparse.Namespace) -> None:
    from guardproxy.http import terminal  # noqa: PLC0415

    key = admin.ask("GET", _key(admin, given))
    lines = {
        "key": key["id"],
        "name": key["name"],
        "org": key["org"],
        "team": key["team"] or "",
        "state": _on(key),
        "expires": _at(key["expires_ms"], "never"),
        "models": ", ".join(key["models"]) or "all",
        "routes": ", ".join(key["routes"]) or "only those that guardproxy reads",
        "upstreams": ", ".join(key["upstreams"]) or "all",
        "policy": key["policy"] or "",
        "user header": key["user_header"] or "",
        "made": f"{_at(key['made_ms'])} by {key['made_by']}",
    }
    for name, text in lines.items():
        print(f"{name:<12} {terminal.visible(text)}".rstrip())
    for one in key["secrets"]:
        ends = f" until {_at(one['until_ms'])}" if one["until_ms"] else ""
        print(f"{'secret':<12} {one['shown']}{ends}")


def _change_key(admin: Admin, given: argparse.Namespace) -> None:
    key = admin.ask("PATCH", _key(admin, given), body=_fields(given))
    print(f"key {key['id']} is changed, within 2 s everywhere")


def _switch_key(admin: Admin, given: argparse.Namespace) -> None:
    key = admin.ask("PATCH", _key(admin, given), body={"enabled": given.on})
    print(f"key {key['id']} is {'used again' if given.on else 'refused'}, within 2 s everywhere")


def _delete_key(admin: Admin, given: argparse.Namespace) -> None:
    key = admin.ask("DELETE", _key(admin, given))
    print(f"key {key['id']} is forgotten, within 2 s everywhere; its runs and what they used stay")


def _fields(given: argparse.Namespace) -> dict[str, Any]:
    """What was said of a key. An empty text in a list is how it is emptied."""
    said = {name: value for name in FIELDS if (value := getattr(given, name)) is not None}
    return {name: [one for one in value if one] if isinstance(value, list) else value for name, value in said.items()}


def _on(one: Mapping[str, Any]) -> str:
    return "on" if one["enabled"] else "off"


def _at(at_ms: int | None, none: str = "") -> str:
    from guardproxy.core.scoped_exemption import moment  # noqa: PLC0415

    return moment(at_ms) if at_ms else none
