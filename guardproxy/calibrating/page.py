"""The figures as one HTML file: a histogram for each measure of each agent. It loads nothing from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from guardproxy.calibrating.fate import Fates
from guardproxy.calibrating.figures import ENOUGH, PERCENTS, Figures, Group
from guardproxy.calibrating.tables import beside, dollars, fragment, number, proposal
from guardproxy.errors import ConfigError

_WIDTH, _HEIGHT, _LABELS = 480, 120, 34
_STYLE = """
:root { color-scheme: light dark; --bar: #4c78a8; --ink: CanvasText; --p95: #b5651d; --limit: #c0392b; --now: #7f8c8d }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem } table { border-collapse: collapse } td, th { padding: .2rem .8rem; text-align: right }
td:first-child, th:first-child { text-align: left }
tbody tr:nth-child(odd) { background: color-mix(in srgb, CanvasText 6%, Canvas) }
figure { display: inline-block; margin: 1rem 1.5rem 0 0 } figcaption { font-size: 13px }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink) }
pre { overflow-x: auto; padding: .8rem; border: 1px solid }
"""


def write(path: Path, name: str, groups: Sequence[Group], fates: Sequence[Fates], margin: float) -> None:
    """Write the page about the runs of `name`. Raises ConfigError where the file cannot be written."""
    proposed = [group for group in groups if any(one.proposed is not None for one in group.figures)]
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{_text(name)}: how large finished runs are</title>",
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style>",
        f"<h1>{_text(name)}: how large finished runs are</h1>",
        *(part for group in groups for part in _group(group)),
        *(_fates(fates, groups) if fates else ()),
    ]
    if proposed:
        parts += [
            "<h2>Limits from these runs</h2>",
            f"<p>P95 + {margin:.0%}, rounded up; none from fewer than {ENOUGH} runs.</p>",
            f"<pre>{_text(chr(10).join(fragment(proposed)))}</pre>",
        ]
    try:
        path.write_text("\n".join(parts) + "\n", "utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error


def _group(group: Group) -> Iterable[str]:
    outcomes = ", ".join(f"{outcome} {count}" for outcome, count in group.outcomes.most_common())
    yield f"<h2>{_text(group.agent)}</h2><p>{group.outcomes.total()} runs: {_text(outcomes)}."
    heard = ", ".join(f"{rule} in {count}" for rule, count in group.heard.most_common())
    yield f" Rules heard in finished runs: {_text(heard or 'none')}.</p>"
    if group.figures:
        heads = [
            "of finished runs",
            "n",
            *(f"P{percent}" for percent in PERCENTS),
            "max",
            "limit now",
            "above it",
            "proposed",
        ]
        yield _table(heads, [_row(one) for one in group.figures])
        yield from map(_plot, group.figures)


def _row(one: Figures) -> list[str]:
    now = ["", ""] if one.now is None else [number(one.now), str(one.above_now)]
    told = [number(value) for value in one.percentiles]
    return [one.measure.name, str(one.sample), *told, number(one.largest), *now, proposal(one)]


def _fates(fates: Sequence[Fates], groups: Sequence[Group]) -> Iterable[str]:
    yield "<h2>What policies would have done</h2>"
    heads = ["policy", "runs", "spoken to", "of finished", "ended", "of finished", "saved at most", "wasted"]
    counts = [(one.runs, one.spoken, one.spoken_finished, one.cut, one.false) for one in fates]
    money = [(dollars(one.saved), dollars(one.wasted)) for one in fates]
    yield _table(heads, [[o.name, *map(str, c), *m] for o, c, m in zip(fates, counts, money, strict=True)])
    yield f"<p>{_text('; '.join(beside(groups)))}.</p>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(one)}" for one in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}' for cell in row)}" for row in rows)
    return f"<table><thead><tr>{head}<tbody>{body}</table>"


def _plot(one: Figures) -> str:
    """Bars from 0 to the largest run, or to the limit that is further right; lines for P50, P95 and the limits."""
    marks = [("P50", one.percentiles[0], "ink"), ("P95", one.percentiles[2], "p95")]
    marks += [("proposed", one.proposed, "limit"), ("now", one.now, "now")]
    shown = [(label, at, ink) for label, at, ink in marks if at is not None and at <= 3 * max(one.largest, 1e-9)]
    right = max([one.largest, *(at for _, at, _ in shown)]) or 1.0
    step, top = _WIDTH * one.largest / right / len(one.bars), max(one.bars)
    bars = "".join(
        f"<rect x='{place * step:.1f}' y='{_HEIGHT - count / top * _HEIGHT + _LABELS:.1f}' fill='var(--bar)'"
        f" width='{max(step - 1, 0.5):.1f}' height='{count / top * _HEIGHT:.1f}'/>"
        for place, count in enumerate(one.bars)
        if count
    )
    lines = "".join(_mark(label, at / right * _WIDTH, ink, at, row) for row, (label, at, ink) in enumerate(shown))
    label = f"{one.measure.name} of {one.sample} finished runs, from 0 to {number(right)}"
    size = f"viewBox='0 0 {_WIDTH} {_HEIGHT + _LABELS + 2}' width={_WIDTH} height={_HEIGHT + _LABELS + 2}"
    drawn = f"<svg {size} role=img aria-label='{_text(label)}'>{bars}{lines}</svg>"
    return f"<figure>{drawn}<figcaption>{_text(label)}</figcaption></figure>"


def _mark(label: str, x: float, ink: str, at: float, row: int) -> str:
    side = "end" if x > _WIDTH / 2 else "start"
    y = 10 + row % 3 * 11
    ends = f"x1='{x:.1f}' x2='{x:.1f}' y1='{y}' y2='{_HEIGHT + _LABELS}'"
    line = f"<line {ends} stroke='var(--{ink})' stroke-dasharray='4 3'/>"
    shift = -3 if side == "end" else 3
    return f"{line}<text x='{x + shift:.1f}' y='{y}' text-anchor='{side}'>{_text(f'{label} {number(at)}')}</text>"


def _text(text: str) -> str:
    return escape(text.encode("utf-8", "replace").decode())
