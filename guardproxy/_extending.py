"""What `guardproxy sessions extend` can raise, and how a value is named on the command line where it is no option's."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from guardproxy.errors import ConfigError

EXTEND = {
    "turns": ("turns",),
    "tool_calls": ("tool_calls",),
    "seconds": ("wall_seconds",),
    "tokens": ("input_tokens", "output_tokens", "total_tokens"),
    "cost": ("cost_usd",),
}
"""Options of the command, and the limits that each raises."""

UNITS = {"cost": "DOLLARS", "seconds": "SECONDS"}
"""Options whose value need be no whole number; of what, as the help shows it."""

OPTIONS = {"arguments": "--args", "text": "TEXT"} | {
    limit: f"--{option.replace('_', '-')}" for option, limits in EXTEND.items() for limit in limits
}
"""How a value is named on the command line, where it is not `--<name>`."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add what can be raised to the command's parser."""
    for option in EXTEND:
        name, kind = option.replace("_", "-"), float if option in UNITS else int
        what = f"by how much: {name.replace('-', ' ')}"
        parser.add_argument(f"--{name}", type=kind, metavar=UNITS.get(option, "N"), help=what)


def amounts(given: argparse.Namespace) -> Mapping[str, float]:
    """By how much to raise which limit. `ConfigError` where nothing was said."""
    more = {limit: getattr(given, option) for option, limits in EXTEND.items() for limit in limits}
    found = {limit: amount for limit, amount in more.items() if amount is not None}
    if not found:
        raise ConfigError("sessions extend: say what to raise: --turns, --tool-calls, --seconds, --tokens or --cost")
    return found


def told(given: argparse.Namespace) -> str:
    """What was said, as it was typed."""
    said = ((option, getattr(given, option)) for option in EXTEND)
    return ", ".join(f"--{option.replace('_', '-')} {amount}" for option, amount in said if amount is not None)
