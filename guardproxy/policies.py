"""The commands about named policies, `guardproxy policies …`: clients of the admin API of a proxy that runs.

A policy is checked against the configuration that stands there, and holds within two seconds in every worker.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from guardproxy.errors import BadAsk, ConfigError

if TYPE_CHECKING:
    from guardproxy.config import Config
    from guardproxy.http.asking import Admin

Load = Callable[[argparse.Namespace], "Config"]
Run = Callable[["Admin", argparse.Namespace], None]

DEFAULT = "default"
"""As in `_policies`."""

HEADS = ("policy", "from", "version", "mode", "models", "agents", "revision", "at", "by")
"""Over the rows of a list."""


def add(commands: Any, load: Load, config: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the commands to a parser's. `load` reads the configuration, `config` adds the options that say which."""
    text = "policies by name: who is watched how"
    policies = commands.add_parser("policies", help=text, description=text[0].upper() + text[1:] + ".")
    group = policies.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Run, text: str, *who: str, signed: bool = False) -> Any:
        parser = group.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        config(parser)
        parser.add_argument(
            "--admin", default="", metavar="URL", help="a proxy's admin listener; default: the one here"
        )
        for one in who:
            parser.add_argument(one, metavar=one.upper(), **({"type": int} if one == "revision" else {}))
        if signed:
            parser.add_argument("--why", default="", metavar="TEXT", help="the reason; kept in the audit")
            parser.add_argument("--by", default="", metavar="NAME", help="who does it; default: you")
        else:
            parser.add_argument("--json", action="store_true", help="as JSON")
        parser.set_defaults(run=lambda given: _done(run, load(given), given))
        return parser

    command("list", _list, "list the policies of the file and of the API")
    command("show", _show, "show a policy: where it is from, for whom, what it comes to, and its document", "name")
    command("versions", _versions, "list what a policy was, also one that was deleted", "name")
    put = command("put", _put, "keep a policy, or put another in its place", "name", "file", signed=True)
    put.epilog = "FILE is YAML or JSON, as a policy under `policies:` in the configuration; - reads it from stdin."
    command("rollback", _rollback, "put a policy back to one of its versions", "name", "revision", signed=True)
    command("delete", _delete, "forget a policy that no key names; its versions stay", "name", signed=True)


def _done(run: Run, config: Config, given: argparse.Namespace) -> int:
    from guardproxy.http import asking  # noqa: PLC0415 - heavy, as all below

    admin = asking.admin(config, given.admin, getattr(given, "by", ""))
    if isinstance(admin, asking.Here):
        said = (
            "no proxy runs on this data directory: a policy is checked by one that runs; start it, or give its --admin"
        )
        raise ConfigError(f"{said} URL, --config or --data-dir")
    try:
        run(admin, given)
    except BadAsk as error:  # what was typed is wrong
        raise ConfigError(f"{_named(error.param or '', given)}: {error.message}") from error
    return 0


def _named(param: str, given: argparse.Namespace) -> str:
    """How a field is named to who typed the command: one of the document by its place in the file."""
    if param.partition(".")[0] == "document":
        return str(getattr(given, "file", "")) + (f": {param[9:]}" if param[9:] else "")
    return {"id": "NAME"}.get(param, f"--{param}")


def _path(given: argparse.Namespace, more: str = "") -> str:
    from guardproxy.http import asking  # noqa: PLC0415

    return f"/policies/{asking.named(given.name)}{more}"


def _list(admin: Admin, given: argparse.Namespace) -> None:
    from guardproxy.http import asking, terminal  # noqa: PLC0415

    found = list(asking.pages(admin, "/policies", {}))
    if given.json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
        return
    terminal.show(HEADS, map(_row, found), "there is no policy")


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    from guardproxy.http import terminal  # noqa: PLC0415

    texts = (one["name"], one["origin"], one["version"] or "not in force", one["mode"] or "")
    globs = (", ".join(one["models"]) or "–", ", ".join(one["agents"]) or "–")
    number = "" if one["revision"] is None else str(one["revision"])
    return tuple(map(terminal.visible, (*texts, *globs, number, _at(one["at_ms"]), one["by"] or "")))


def _show(admin: Admin, given: argparse.Namespace) -> None:
    from guardproxy.http import terminal  # noqa: PLC0415

    one = admin.ask("GET", _path(given))
    if given.json:
        print(json.dumps(one, ensure_ascii=False, indent=2))
        return
    for head, text in _facts(one).items():
        print(f"{head:<9} {text}")
    for number, line in enumerate(one.get("in_force", ())):
        print(f"{'' if number else 'in force':<9} {terminal.visible(line)}")
    if one["document"] is not None:
        print("document, as it was put")
        print(json.dumps(one["document"], ensure_ascii=True, indent=2))


def _facts(one: Mapping[str, Any]) -> Mapping[str, str]:
    """Where it is from, whether it is in force, and for whom."""
    from guardproxy.http import terminal  # noqa: PLC0415

    name = terminal.visible(one["name"])
    section = "policy" if name == DEFAULT else f"policies.{name}"
    origin = f"the configuration file ({section})"
    if one["origin"] == "api":
        origin = f"the admin API: revision {one['revision']}, put by {terminal.visible(one['by'] or 'nobody')}"
        origin += f" at {_at(one['at_ms'])}"
    stands = one.get("in_force_revision", one["revision"])  # an older proxy does not say
    version = f"{name}@{one['version']}, as log and spans name it"
    if one["version"] is None:
        version = "not in force: it cannot be used here, the log of serve says why"
    elif stands != one["revision"]:
        version += f"; of revision {stands}: the newest cannot be used here, the log of serve says why"
    whom = [f"{what} {', '.join(one[what])}" for what in ("models", "agents") if one[what]]
    said = " and ".join(whom) or ("whoever has no other" if name == DEFAULT else "keys that name it")
    facts = {"policy": name, "from": origin, "version": version, "mode": one["mode"] or "", "for": said}
    return {head: terminal.visible(text) for head, text in facts.items() if text}


def _versions(admin: Admin, given: argparse.Namespace) -> None:
    from guardproxy.http import terminal  # noqa: PLC0415

    found = admin.ask("GET", _path(given, "/revisions"))["items"]
    if given.json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
        return
    rows = (
        (str(one["revision"]), _at(one["at_ms"]), *map(terminal.visible, (one["by"], one["version"], _short(one))))
        for one in found
    )
    terminal.show(("revision", "at", "by", "version", "document"), rows, "it has no versions")


def _short(one: Mapping[str, Any]) -> str:
    text = json.dumps(one["document"], ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _put(admin: Admin, given: argparse.Namespace) -> None:
    from guardproxy import _document  # noqa: PLC0415

    if given.file == "-":
        document = _document.parse(sys.stdin.read(_document.LARGEST), "stdin")
    else:
        from pathlib import Path  # noqa: PLC0415

        document = _document.parse(_document.read(Path(given.file)), given.file)
    try:
        json.dumps(document, allow_nan=False)
    except (TypeError, ValueError) as error:  # YAML has dates, and names that are no text
        raise ConfigError(f"{given.file}: {error}") from error
    _kept(admin.ask("PUT", _path(given), body={"document": document} | _why(given)))


def _rollback(admin: Admin, given: argparse.Namespace) -> None:
    found = admin.ask("GET", _path(given, "/revisions"))["items"]
    one = next((one for one in found if one["revision"] == given.revision), None)
    if one is None:
        known = ", ".join(str(one["revision"]) for one in found[:10])
        raise ConfigError(f"REVISION: {given.name} has no {given.revision}; its newest are {known}")
    _kept(admin.ask("PUT", _path(given), body={"document": one["document"]} | _why(given)))


def _kept(one: Mapping[str, Any]) -> None:
    version = one["version"] or "not in force"
    print(f"policy {one['name']} is kept as revision {one['revision']} ({version}); it holds within 2 s everywhere")


def _delete(admin: Admin, given: argparse.Namespace) -> None:
    print(f"policy {admin.ask('DELETE', _path(given), body=_why(given))['name']} is forgotten; its versions stay")


def _why(given: argparse.Namespace) -> dict[str, str]:
    return {"why": given.why} if given.why else {}


def _at(at_ms: int | None) -> str:
    from guardproxy.core.scoped_exemption import moment  # noqa: PLC0415

    return moment(at_ms) if at_ms else ""
