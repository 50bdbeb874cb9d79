"""How a check says what is wrong: the sentence of a language with quotes filled in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from guardproxy.core.advice import LANGUAGES
from guardproxy.core.fingerprint import GUARD_MARK

QUOTE = 160
"""Characters of a quote: enough to recognise it, too few to be read as content."""

NAMED = 5
"""Things of one kind that a sentence names; the rest are counted."""


def say(language: str, what: str, **facts: str) -> str:
    """The sentence `what` of a language. Facts are quoted: short, in one line, without what could look like markup."""
    return str(LANGUAGES[language].COMPLETION[what]).format(**{name: quoted(fact) for name, fact in facts.items()})


def told(language: str, sentences: Iterable[str]) -> str | None:
    """The sentences as one text; None: there is nothing to say."""
    return str(LANGUAGES[language].JOIN).join(sentences) or None


def feedback_of(texts: Sequence[str], language: str) -> str:
    """One paragraph from what failed checks say."""
    words = LANGUAGES[language]
    parts = (f"{GUARD_MARK} {words.SOURCE}", words.UNFINISHED, *texts, words.UNFINISHED_WAYS)
    return str(words.JOIN).join(parts)


def listed(names: Iterable[str], *, mark: str = "`") -> str:
    """Names in a row, the first NAMED of them, each once."""
    unique = list(dict.fromkeys(quoted(name) for name in names))
    more = f" (+{len(unique) - NAMED})" if len(unique) > NAMED else ""
    return ", ".join(f"{mark}{name}{mark}" for name in unique[:NAMED]) + more


def quoted(text: str) -> str:
    """Content inside our words: short, one line, without brackets and earlier words of ours."""
    plain = " ".join(text.partition(GUARD_MARK)[0][: 4 * QUOTE].split())
    if len(plain) > QUOTE:
        plain = f"{plain[: QUOTE - 1]}…"
    return plain.replace("<", "‹").replace(">", "›").replace("`", "'")
