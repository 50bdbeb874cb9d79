"""The commands by which an operator says who may use the proxy: `guardproxy orgs …`, `teams …` and `keys …`.

They work on the store itself, as `guardproxy sessions` does, whether or not a proxy runs; workers know within 2 s.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from guardproxy.errors import BadAsk, ConfigError

if TYPE_CHECKING:
    from guardproxy.config import Config
    from guardproxy.http.keyring import Keyring, Made
    from guardproxy.store.redis import Store
    from guardproxy.store.registry import Key

T = TypeVar("T")
Load = Callable[[argparse.Namespace], "Config"]

OPTIONS = {
    "models": "--model",
    "routes": "--route",
    "upstreams": "--upstream",
    "user_header": "--user-header",
    "name": "NAME or --name",
    "key": "KEY",
}
"""How a field is named on the command line, where it is not `--<field>`."""

FIELDS = ("name", "models", "routes", "upstreams", "policy", "user_header", "expires")
"""What `keys create` and `keys update` say of a key."""


def add(commands: Any, load: Load, config: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the commands to a parser's. `load` reads the configuration, `config` adds the options that say which."""

    def command(group: Any, name: str, run: Callable[[Config, argparse.Namespace], None], text: str, who: str) -> Any:
        parser = group.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        config(parser)
        if who:
            parser.add_argument("subject", metavar=who)
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
    _signed(command(group, "create", _make_org, "make an org", "ORG"))
    for verb, text in (("enable", "let the keys of an org be used again"), ("disable", "refuse all keys of an org")):
        command(group, verb, _switch_org, text, "ORG").set_defaults(on=verb == "enable")
    command(group, "delete", _delete_org, "forget an org that has no teams and keys", "ORG")


def _add_teams(group: Any, command: Callable[..., Any]) -> None:
    parsers = [command(group, "list", _list_teams, "list the teams of an org", "")]
    parsers.append(_signed(command(group, "create", _make_team, "make a team", "TEAM")))
    for verb, text in (("enable", "let the keys of a team be used again"), ("disable", "refuse all keys of a team")):
        parsers.append(command(group, verb, _switch_team, text, "TEAM"))
        parsers[-1].set_defaults(on=verb == "enable")
    parsers.append(command(group, "delete", _delete_team, "forget a team that has no keys", "TEAM"))
    for parser in parsers:
        _of(parser)


def _add_keys(group: Any, command: Callable[..., Any]) -> None:
    _of(command(group, "list", _list_keys, "list the keys of an org", ""))
    make = _signed(_of(_about(command(group, "create", _make_key, "make a key; its secret is shown once", ""))))
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


def _signed(parser: Any) -> Any:
    parser.add_argument("--by", metavar="NAME", help="who makes it; default: you")
    return parser


def _about(parser: Any) -> Any:
    parser.add_argument("--name", metavar="TEXT", help="what people call it")
    for option, text in (
        ("model", "a model that it may use, * and ? allowed; again for more; '' = all"),
        ("route", "a route that it may use though guardproxy passes it on unread, such as /v1/embeddings; '' = none"),
        ("upstream", "an upstream that it may use; '' = all"),
    ):
        parser.add_argument(f"--{option}", dest=f"{option}s", action="append", metavar="PATTERN", help=text)
    parser.add_argument("--policy", metavar="NAME", help="the policy that holds for it")
    parser.add_argument("--user-header", metavar="HEADER", help="the header that names the end user; '' = none may")
    parser.add_argument("--expires", metavar="WHEN", help="a span from now (90d), a date (2027-01-31), or never")
    return parser


def _done(run: Callable[[Config, argparse.Namespace], None], config: Config, given: argparse.Namespace) -> int:
    try:
        run(config, given)
    except BadAsk as error:  # what was typed is wrong, as with every option
        name = error.param or ""
        raise ConfigError(f"{OPTIONS.get(name, f'--{name}')}: {error.message}") from error
    return 0


def _with(config: Config, given: argparse.Namespace, work: Callable[[Store, Keyring], Awaitable[T]]) -> T:
    from guardproxy import secrets  # noqa: PLC0415 - heavy, as all below
    from guardproxy.http import reach, terminal  # noqa: PLC0415
    from guardproxy.http.keyring import Keyring  # noqa: PLC0415

    secret = secrets.find(os.environ, config.data_dir, shared_store=bool(config.store.url))
    by = getattr(given, "by", None) or terminal.me()
    key = secrets.derive(secret).key_hash
    return reach.ask(config, lambda store: work(store, Keyring(store.registry, key, by)))


def _list_orgs(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.http import terminal  # noqa: PLC0415

    orgs = _with(config, given, lambda store, _: store.registry.orgs())
    rows = ((one.name, _on(on=one.enabled), _at(one.made_ms), terminal.visible(one.made_by)) for one in orgs)
    terminal.show(("org", "state", "made", "by"), rows, "there is no org but the default one")


def _make_org(config: Config, given: argparse.Namespace) -> None:
    org = _with(config, given, lambda _, ring: ring.make_org(given.subject))
    print(f"org {org.name} is made; its first key: guardproxy keys create --org {org.name}")


def _switch_org(config: Config, given: argparse.Namespace) -> None:
    org = _with(config, given, lambda _, ring: ring.switch_org(given.subject, on=given.on))
    print(f"the keys of org {org.name} are {'used again' if given.on else 'refused'}, within 2 s everywhere")


def _delete_org(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.store.registry import Org  # noqa: PLC0415

    _with(config, given, lambda store, _: store.registry.delete(Org(given.subject)))
    print(f"org {given.subject} is forgotten")


def _list_teams(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.http import terminal  # noqa: PLC0415

    teams = _with(config, given, lambda store, _: store.registry.teams(given.org))
    rows = ((one.name, _on(on=one.enabled), _at(one.made_ms), terminal.visible(one.made_by)) for one in teams)
    terminal.show(("team", "state", "made", "by"), rows, f"org {given.org} has no team")


def _make_team(config: Config, given: argparse.Namespace) -> None:
    team = _with(config, given, lambda _, ring: ring.make_team(given.org, given.subject))
    print(f"team {team.name} of org {team.org} is made")


def _switch_team(config: Config, given: argparse.Namespace) -> None:
    team = _with(config, given, lambda _, ring: ring.switch_team(given.org, given.subject, on=given.on))
    print(f"the keys of team {team.name} are {'used again' if given.on else 'refused'}, within 2 s everywhere")


def _delete_team(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.store.registry import Team  # noqa: PLC0415

    _with(config, given, lambda store, _: store.registry.delete(Team(given.org, given.subject)))
    print(f"team {given.subject} is forgotten")


def _list_keys(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.http import terminal  # noqa: PLC0415

    keys = _with(config, given, lambda store, _: store.registry.keys(given.org))
    heads = ("key", "secret", "name", "team", "state", "expires", "models", "made", "by")
    terminal.show(heads, (_row(one) for one in keys), f"org {given.org} has no key; guardproxy keys create makes one")


def _row(key: Key) -> tuple[str, ...]:
    from guardproxy.http import terminal  # noqa: PLC0415

    secrets = ", ".join(one.shown for one in key.secrets)
    who = (key.id, secrets, terminal.visible(key.name), key.team, _on(on=key.enabled), _at(key.expires_ms) or "never")
    return (*who, ", ".join(key.models) or "all", _at(key.made_ms), terminal.visible(key.made_by))


def _make_key(config: Config, given: argparse.Namespace) -> None:
    fields = {name: getattr(given, name) for name in FIELDS}
    _told(_with(config, given, lambda _, ring: ring.make_key(given.org, given.team, **fields)), given)


def _rotate_key(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.http.keyring import span_ms  # noqa: PLC0415

    overlap_ms = span_ms("overlap", given.overlap)
    _told(_with(config, given, lambda _, ring: ring.rotate(given.subject, overlap_ms)), given)


def _told(made: Made, given: argparse.Namespace) -> None:
    if given.quiet:
        print(made.secret)
        return
    print(f"key {made.key.id} of org {made.key.org}: its secret is shown once, now:\n  {made.secret}")
    for one in made.key.secrets[1:]:
        print(f"the secret {one.shown} holds until {_at(one.until_ms)}")


def _show_key(config: Config, given: argparse.Namespace) -> None:
    from guardproxy.http import terminal  # noqa: PLC0415

    key = _with(config, given, lambda _, ring: ring.key(given.subject))
    lines = {
        "key": key.id,
        "name": terminal.visible(key.name),
        "org": key.org,
        "team": key.team,
        "state": _on(on=key.enabled),
        "expires": _at(key.expires_ms) or "never",
        "models": ", ".join(key.models) or "all",
        "routes": ", ".join(key.routes) or "only those that guardproxy reads",
        "upstreams": ", ".join(key.upstreams) or "all",
        "policy": terminal.visible(key.policy),
        "user header": key.user_header,
        "made": f"{_at(key.made_ms)} by {terminal.visible(key.made_by)}",
    }
    for name, text in lines.items():
        print(f"{name:<12} {text}".rstrip())
    for one in key.secrets:
        print(f"{'secret':<12} {one.shown}{f' until {_at(one.until_ms)}' if one.until_ms else ''}")


def _change_key(config: Config, given: argparse.Namespace) -> None:
    fields = {name: getattr(given, name) for name in FIELDS}
    key = _with(config, given, lambda _, ring: ring.change(given.subject, fields))
    print(f"key {key.id} is changed, within 2 s everywhere")


def _switch_key(config: Config, given: argparse.Namespace) -> None:
    key = _with(config, given, lambda _, ring: ring.change(given.subject, {"enabled": given.on}))
    print(f"key {key.id} is {'used again' if given.on else 'refused'}, within 2 s everywhere")


def _delete_key(config: Config, given: argparse.Namespace) -> None:
    key = _with(config, given, lambda _, ring: ring.delete_key(given.subject))
    print(f"key {key.id} is forgotten, within 2 s everywhere; its runs and what they used stay")


def _on(*, on: bool) -> str:
    return "on" if on else "off"


def _at(at_ms: int) -> str:
    from guardproxy.core.scoped_exemption import moment  # noqa: PLC0415

    return moment(at_ms) if at_ms else ""
