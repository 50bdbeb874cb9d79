"""Files changed only where that is allowed, and tests that an answer cites really run; for coding agents.

What was changed is read off calls of editing tools, patches and plain shell commands that succeeded; what a program
does by itself is not seen, and what was undone again does not count. Globs are shell-like, upper and lower case alike,
`*` also stands for slashes; one without a leading `/` or `~` matches below any directory, and what lies in a matching
directory matches too.

Passes where it cannot tell: tests may have been run by any program or tool that is not known to do something else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from guardproxy.core.completion._candidate import Candidate
from guardproxy.core.completion._changes import changed
from guardproxy.core.completion._claims import claims_run
from guardproxy.core.completion._tests import runs_tests
from guardproxy.core.completion._words import listed, say, told

SCRATCH = ("/tmp", "/var/tmp", "/private/tmp", "/private/var", "/dev", "*/appdata/local/temp")  # noqa: S108 - names in calls
"""Where everybody may write: what is left there is no change of the work."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where files may be changed. Raises ValueError where a pattern can fit nothing."""

    allowed: tuple[str, ...] = ()
    """Globs of files that may be changed or made; nothing else may. Empty: all may."""

    denied: tuple[str, ...] = ()
    """Globs of files that must stay as they are, also where `allowed` names them."""

    scratch: tuple[str, ...] = SCRATCH
    """Globs of files that do not count."""

    tests: bool = False
    """Whether an answer that says that tests were run, or pass, needs a run of tests."""

    mode: Literal["off", "observe", "enforce"] = "enforce"

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("allowed", "denied", "scratch"):
            if not all(pattern.strip().strip("/*") for pattern in getattr(self, name)):
                raise ValueError(f"{name}: a pattern needs more than slashes and asterisks")

    @property
    def asks(self) -> bool:
        """Whether there is anything to check."""
        return bool(self.allowed or self.denied or self.tests)


def check(candidate: Candidate, settings: Settings, language: str) -> str | None:
    """Name the files that should not have been changed, and tests that nobody ran."""
    return told(language, _wrong(candidate, settings, language))


def _wrong(candidate: Candidate, settings: Settings, language: str) -> Iterator[str]:
    state = changed(candidate)
    counting = {path: how for path, how in state.items() if not _within(path, settings.scratch)}
    outside = [path for path, how in counting.items() if how != "removed" and not _within(path, settings.allowed)]
    if settings.allowed and outside:
        yield say(language, "files_outside", files=listed(outside, mark=""), allowed=listed(settings.allowed, mark=""))
    if touched := [path for path in counting if _within(path, settings.denied)]:
        yield say(language, "files_denied", files=listed(touched, mark=""))
    if settings.tests and state and candidate.whole and claims_run(candidate.said) and not _may_have_run(candidate):
        yield say(language, "tests_not_run")


def _may_have_run(candidate: Candidate) -> bool:
    """Whether tests were run, may have been, or were spoken of by somebody else."""
    if any(runs_tests(act) is not False for act in candidate.acts):
        return True
    heard = [message.text for message in candidate.ask.tail if message.role != "assistant"]
    return any("pass" in text.casefold() or "通过" in text for text in heard)


def _within(path: str, patterns: tuple[str, ...]) -> bool:
    plain = path.casefold()
    return any(_below(plain, form) for pattern in patterns for form in _forms(pattern))


def _forms(pattern: str) -> Iterator[str]:
    """The globs that a pattern stands for; `/**/` is also nothing."""
    glob = pattern.strip().replace("\\", "/").casefold().removeprefix("./").removesuffix("/**").rstrip("/")
    for form in {glob, glob.replace("/**/", "/")}:
        yield form
        if form[:1] not in ("/", "~"):
            yield form.removeprefix("**/")
            yield "*/" + form.removeprefix("**/")


def _below(path: str, form: str) -> bool:
    return fnmatchcase(path, form) or fnmatchcase(path, f"{form}/*")
