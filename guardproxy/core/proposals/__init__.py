"""The calls that a model proposes, judged before the agent gets them: a file is a check.

Each has frozen `Settings` with a `mode` (off, observe, enforce) and `prepare(case, settings)`, which answers None where
it has nothing to look at: on most turns all of them do, and no call is held back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType

from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Ask, Call, Decision, Episode, Trail
from guardproxy.core.proposals import approval, arguments, deny, human, repeat
from guardproxy.core.proposals._case import ENFORCE, MODES, OBSERVE, OFF, Case, Check, Objection, Tries
from guardproxy.core.scoped_exemption import ScopedExemption
from guardproxy.core.tool_rules import ToolRules

__all__ = ["CHECKS", "ENFORCE", "MODES", "OBSERVE", "OFF", "Inspection", "Objection", "default_settings", "prepare"]

CHECKS: Mapping[str, ModuleType] = {
    "deny": deny,
    "repeat": repeat,
    "arguments": arguments,
    "approval": approval,
    "human": human,
}
"""Name to module, in the order of judgement: the first that objects to a call decides.

What is forbidden needs no repair, and nobody is asked to approve what is forbidden, useless or written wrongly.
"""


_WANTED = tuple((name, module.wanted) for name, module in CHECKS.items())


def default_settings() -> dict[str, object]:
    """Fresh default settings of every check."""
    return {name: module.Settings() for name, module in CHECKS.items()}


class Inspection:
    """The checks that have something to look at on a turn, by name.

    `errors`: of checks that raised, so far. Each costs only itself, and the turn goes on without it.
    """

    __slots__ = ("_checks", "errors")

    def __init__(self, checks: Mapping[str, Check], errors: Sequence[str] = ()) -> None:
        self._checks = checks
        self.errors = list(errors)

    def concerns(self, tool: str) -> bool:
        """Whether calls of the tool must be held back until they are judged; never for what is only observed."""
        return any(check.mode == ENFORCE and check.concerns(tool) for check in self._checks.values())

    @property
    def enforces(self) -> bool:
        """Whether calls may be refused, or wait; else they are only looked at."""
        return any(check.mode == ENFORCE for check in self._checks.values())

    def judge(self, calls: Sequence[Call], *, repairs: int = 0, refusals: int = 0) -> tuple[Objection, ...]:
        """The objections to the calls of one answer, by position: at most one of mode enforce for each.

        Those of mode observe stand before it. `repairs`, `refusals`: how often the model was asked again in this turn
        to repair a call, and because of a refused one.
        """
        tries = Tries(repairs, refusals)
        return tuple(one for at, call in enumerate(calls) for one in self._objections(at, call, tries))

    def _objections(self, position: int, call: Call, tries: Tries) -> Iterator[Objection]:
        for name, check in self._checks.items():
            try:
                found = check.look(position, call, tries) if check.concerns(call.name) else None
            except Exception as error:  # noqa: BLE001 - as in `policy`: a check must never end a request
                self.errors.append(_told(name, error))
                continue
            if found is not None:
                yield found
                if found.mode == ENFORCE:
                    return


def _told(name: str, error: Exception) -> str:
    return f"{name}: {type(error).__name__}: {error}"


def _enforced(rule: str) -> str:
    return ENFORCE


def prepare(
    ask: Ask,
    trail: Trail,
    episodes: Sequence[Episode],
    decision: Decision,
    settings: Mapping[str, object],
    tools: ToolRules,
    printer: Fingerprinter,
    language: str,
    schemas: Callable[[str], Mapping[str, object] | None],
    *,
    mode_of: Callable[[str], str] = _enforced,
    exempt: Sequence[ScopedExemption] = (),
) -> Inspection | None:
    """What is to be looked at when this turn's answer comes; None: nothing, as on most turns.

    `episodes`: those of the store, oldest first. `settings`: per check; one that is absent is off. `mode_of`: the mode
    in which a loop's rule works (`Policy.mode_of`). `exempt`: the exemptions that stand for this run.
    """
    wanted = [name for name, asks in _WANTED if name in settings and asks(settings[name], tools, decision, episodes)]
    if not wanted:  # most turns
        return None
    case = Case(ask, trail, episodes, decision, tools, printer, language, schemas, mode_of, exempt)
    checks: dict[str, Check] = {}
    errors: list[str] = []
    for name in wanted:
        try:
            check = CHECKS[name].prepare(case, settings[name])
        except Exception as error:  # noqa: BLE001 - as above
            errors.append(_told(name, error))
            continue
        if check is not None:
            checks[name] = check
    return Inspection(checks, errors) if checks or errors else None
