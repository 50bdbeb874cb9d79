"""The command line. Errors are one clear line; exit code 2 says that the command or the configuration is wrong."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from guardproxy import __version__, afar, calibrate, erasing, governing, handover, policies, spending, tenants
from guardproxy.errors import ConfigError, GuardError

OK, FAILED, WRONG = 0, 1, 2
"""Exit codes: done; tried and failed; the command or the configuration is wrong."""


PRESETS = ("strict", "balanced", "patient")
"""Names of `core.presets`, said here so that `guardproxy --help` need not load the detectors."""


TOKENS = (
    "Commands take a token from GUARDPROXY_ADMIN_TOKEN; admin init prints the first, admin tokens create others, once. "
    "A viewer's looks; an operator's steers runs, decides approvals, says false-alarm and throws panic; an owner's is "
    "for orgs, teams, keys, budgets, policies, erase and admin. Without any, whoever has the data directory may do all "
    "that works on the store itself."
)
"""Whose token a command needs; docs/admin.md says it command by command."""

NEEDED = ("store.", "admin.", "auth", "tools.", "policy.mode", "policy.refuse")
"""What a command needs of a configuration that reaches the store, or the proxy beside it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    given = _parser().parse_args(arguments)
    try:
        return int(given.run(given))
    except ConfigError as error:
        return _say_wrong(error.message, WRONG)
    except GuardError as error:
        return _say_wrong(error.message, FAILED)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `guardproxy trace X | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


def _say_wrong(message: str, code: int) -> int:
    print(f"guardproxy: {message}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    text = "An OpenAI-compatible proxy that ends loops of agents."
    parser = argparse.ArgumentParser("guardproxy", description=text, epilog=TOKENS)
    parser.add_argument("--version", action="version", version=f"guardproxy {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_serve(_command(commands, "serve", _serve, "serve agents"))
    _add_demo(_command(commands, "demo", _demo, "a looping agent with and without the proxy; needs no key"))
    check = _command(commands, "check", _check, "read a configuration and name every error in it")
    check.add_argument("file", type=Path, metavar="FILE")
    _add_replay(_command(commands, "replay", _replay, "play recorded runs through the same decisions"))
    _add_trace(_command(commands, "trace", _trace, "print what a session did, turn by turn"))
    listing = _command(commands, "list", _list, "list the detectors and their thresholds")
    listing.add_argument("--preset", choices=PRESETS, default="balanced", help="of this preset (policy.preset)")
    _add_false_alarm(_command(commands, "false-alarm", _false_alarm, "say that a run was stopped wrongly: it goes on"))
    _add_false_alarms(_command(commands, "false-alarms", _false_alarms, "list what was called a false alarm, by whom"))
    for group in (calibrate, handover, governing, tenants, policies, spending, erasing):
        group.add(commands, _reaching, _add_config)
    panic = _command(commands, "panic", _panic, "switch every intervention off (or on again) in a running proxy")
    panic.add_argument("state", choices=("on", "off", "show"), help="on: nothing intervenes or limits any more")
    _add_config(panic)
    panic.add_argument("--admin", metavar="URL", help="the proxy's admin listener; default: of FILE or DIR")
    return parser


def _command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(run=run)
    return parser


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML file; without one the defaults hold")
    parser.add_argument("--data-dir", metavar="DIR", help="where the embedded store lives (store.data_dir)")


def _add_org(parser: argparse.ArgumentParser) -> None:
    _add_config(parser)
    parser.add_argument("--org", default="default", metavar="ORG", help="of this org (default: default)")


def _add_serve(parser: argparse.ArgumentParser) -> None:
    _add_config(parser)
    parser.add_argument("--host", help="address to listen on (listen.host)")
    parser.add_argument("--port", type=int, help="port to listen on; 0 = any free one (listen.port)")
    parser.add_argument("--admin-port", type=int, metavar="PORT", help="port for operators (admin.port)")
    parser.add_argument("--workers", type=int, metavar="N", help="worker processes (listen.workers)")
    parser.add_argument("--auth", choices=("none", "keys", "passthrough"), help="who may use it (auth.mode)")
    parser.add_argument("--upstream", metavar="URL", help="the provider (upstream.url; default: OPENAI_BASE_URL)")


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--local-model", action="store_true", help="run a real 135M model (extra: local-model)")


def _add_replay(parser: argparse.ArgumentParser) -> None:
    _add_config(parser)
    parser.add_argument("file", type=Path, metavar="FILE.jsonl[.gz]")
    parser.add_argument("--json", action="store_true", help="one JSON object a session")
    parser.add_argument("--compare", type=Path, metavar="OTHER.yaml", help="play the same runs under another, too")
    parser.add_argument("--labels", type=Path, metavar="LABELS.jsonl", help="apply exported false alarms, too")
    parser.add_argument("--html", type=Path, metavar="PAGE.html", help="write a page with a bar a session")


def _add_trace(parser: argparse.ArgumentParser) -> None:
    _add_org(parser)
    parser.add_argument("session", metavar="SESSION", help="its id, as in x-guardproxy-session-id")
    source = "not the store: a log of `serve`, or spans that a collector wrote (OTLP JSON lines); - is what is piped in"
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help=source)
    afar.options(parser)


def _add_false_alarm(parser: argparse.ArgumentParser) -> None:
    _add_org(parser)
    parser.add_argument("session", metavar="SESSION", help="its id, as in x-guardproxy-session-id")
    parser.add_argument("--rule", default="", help="the rule that was wrong; default: the one that acted last")
    parser.add_argument("--tool", default="", metavar="NAME", help="exempt the rule for calls of this tool alone")
    parser.add_argument("--scope", default="session", help="where: session (default), agent, or tool (with --tool)")
    parser.add_argument("--for", dest="span", default="7d", metavar="TIME", help="how long: 90m, 12h, 7d (default), 2w")
    parser.add_argument("--note", default="", metavar="TEXT", help="why; kept with the label")
    parser.add_argument("--by", metavar="NAME", help="who says so; default: you")


def _add_false_alarms(parser: argparse.ArgumentParser) -> None:
    _add_org(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--export", type=Path, metavar="FILE.jsonl", help="write them for replay --labels")
    what.add_argument("--revoke", metavar="LABEL", help="take one back: its exemption ends, it is exported no more")
    parser.add_argument("--by", metavar="NAME", help="who takes it back; default: you")


def overrides(given: argparse.Namespace) -> dict[str, object]:
    """Values given on the command line, by their path in the configuration."""
    paths = {
        "host": "listen.host",
        "port": "listen.port",
        "admin_port": "admin.port",
        "workers": "listen.workers",
        "upstream": "upstream.url",
        "auth": "auth.mode",
        "data_dir": "store.data_dir",
    }
    values = {path: getattr(given, name, None) for name, path in paths.items()}
    return {path: value for path, value in values.items() if value is not None}


def _loader(given: argparse.Namespace) -> Callable[[], tuple[Any, Mapping[str, Any]]]:
    from guardproxy import config  # noqa: PLC0415 - `guardproxy --help` need not wait for pydantic

    return config.reader(given.config, os.environ, overrides(given))


def _reaching(given: argparse.Namespace) -> Any:
    """The configuration, as far as a command needs it that reaches the store: it has no key of the provider's."""
    from guardproxy import config  # noqa: PLC0415 - as above

    return config.load(given.config, os.environ, overrides(given), needed=NEEDED)[0]


def _serve(given: argparse.Namespace) -> int:
    from guardproxy.http import reach, serve  # noqa: PLC0415 - heavy

    where = reach.options(given.config, given.data_dir)
    serve.serve(_loader(given), os.environ, lambda line: print(line, flush=True), where)
    return OK


def _demo(given: argparse.Namespace) -> int:
    from guardproxy.demo import run  # noqa: PLC0415 - needs the extra

    return run.run(local_model=given.local_model)


def _check(given: argparse.Namespace) -> int:
    from guardproxy import _in_force, config  # noqa: PLC0415 - heavy
    from guardproxy.http import unpriced  # noqa: PLC0415 - as above

    checked, _ = config.load(given.file, os.environ)
    policy = checked.policy_value()
    where = checked.addresses
    shown = "upstreams " + ", ".join(f"{name} {url}" for name, url in where.items())
    told = shown if len(where) > 1 else f"upstream {next(iter(where.values()))}"
    print(f"{given.file} is fine: mode {policy.mode}, {len(policy.detectors)} detectors, {told}")
    warnings = (*checked.warnings(), *unpriced.warnings(checked))
    for line in (*[f"warning: {one}" for one in warnings], *_in_force.lines(checked, policy)):
        print(f"  {line}")
    return OK


def _replay(given: argparse.Namespace) -> int:
    from guardproxy import config, replay  # noqa: PLC0415 - heavy

    loaded, _ = config.load(given.config, os.environ, overrides(given))
    other = None
    if given.compare and given.labels:
        raise ConfigError("--compare and --labels: one at a time; --labels goes with --config OTHER.yaml, too")
    if given.compare:
        there, _ = config.load(given.compare, os.environ, overrides(given))
        other = replay.Other(str(given.compare), there.policy_value(), there.rules_value())
    policy, rules = loaded.policy_value(), loaded.rules_value()
    if given.labels:
        other = replay.exempted(given.file, given.labels, policy, rules)
    return replay.run(given.file, policy, rules, as_json=given.json, html=given.html, other=other)


def _trace(given: argparse.Namespace) -> int:
    if given.source and (given.admin or given.json):
        raise ConfigError("trace --from FILE reads the file alone: leave out --admin and --json")
    if not given.source and afar.wanted(given):
        afar.trace(_reaching(given), given)
        return OK
    from guardproxy.http import reach, trace  # noqa: PLC0415 - heavy

    if given.source:
        trace.show_file(given.source, given.session, "" if given.org == "default" else given.org)
        return OK
    where = reach.options(given.config, given.data_dir, given.org)
    trace.show(_reaching(given), given.org, given.session, where)
    return OK


def _false_alarm(given: argparse.Namespace) -> int:
    from guardproxy.http import false_alarm as alarms, terminal  # noqa: PLC0415 - heavy

    loaded = _reaching(given)
    by = given.by or terminal.me()
    said = alarms.Said(given.session, by, given.rule, given.tool, given.scope, given.span, given.note)
    print(alarms.told(alarms.add(loaded, given.org, said)))
    return OK


def _false_alarms(given: argparse.Namespace) -> int:
    from guardproxy.http import false_alarm as alarms, reach, terminal  # noqa: PLC0415 - heavy

    loaded = _reaching(given)
    if given.revoke:
        label = alarms.revoke(loaded, given.org, given.revoke, given.by or terminal.me())
        print(f"label {label.id} is taken back: {label.rule} acts again in what it exempted")
        return OK
    labels = alarms.every(loaded, given.org)
    if given.export:
        print(f"{alarms.export(labels, given.export)} sessions written to {given.export}")
    else:
        alarms.show(labels, round(time.time() * 1000), reach.nothing("no label is kept", loaded, given.org))
    return OK


def _panic(given: argparse.Namespace) -> int:
    from guardproxy.http import client, panic  # noqa: PLC0415 - heavy

    wanted = {"on": True, "off": False, "show": None}[given.state]
    admin = given.admin or panic.listener(_reaching(given))
    on, pending = panic.switch(admin, wanted, os.environ.get(client.VARIABLE, "").strip())
    print(f"panic is on: {panic.ON}" if on else "panic is off: interventions as configured")
    if pending:
        print("(the store is away: this holds as soon as it answers)")
    return OK


def _list(given: argparse.Namespace) -> int:
    from guardproxy.core import detectors, presets  # noqa: PLC0415 - heavy

    settings = presets.preset_settings(given.preset)
    for rule, module in detectors.RULES.items():
        summary = " ".join((module.__doc__ or "").partition("\n\n")[0].split())
        print(f"{rule:<20} {summary}")
        print(f"{'':<20} {_settings(settings[rule])}")
    return OK


def _settings(settings: Any) -> str:
    from dataclasses import astuple, fields  # noqa: PLC0415 - only here

    shown = {one.name: getattr(settings, one.name) for one in fields(settings)}
    return ", ".join(f"{k}={list(astuple(v)) if hasattr(v, 'nudge') else v}" for k, v in shown.items())
