"""Which calls run a project's tests, and which might: what an answer says of tests is held against them."""

from __future__ import annotations

import posixpath
import re

from guardproxy.core.completion._candidate import Act, Candidate
from guardproxy.core.completion._commands import Part, parts_of
from guardproxy.core.model import Flag

_PROGRAMS = frozenset(
    "pytest py.test tox nox unittest jest vitest mocha ava karma cypress playwright rspec phpunit ctest nose2 "
    "nosetests behave cucumber bats pest gotestsum".split()
)
_TASKS = frozenset(
    "go cargo npm pnpm yarn bun dotnet mix swift deno bazel bazelisk zig rails rake make gmake just task gradle "
    "gradlew mvn mvnw sbt lein stack cabal meson hatch composer flutter dart ant nx turbo manage.py poe invoke "
    "inv".split()
)
_TEST_TASK = re.compile(r"(?:.*[:_/.-])?(?:unit|e2e|integration)?[_-]?tests?(?:[:_/.-].*)?|nextest|spec|t")
_TEST_FILE = re.compile(r"(?:.*[_.-])?(?:run_?)?tests?(?:[_.-].*)?", re.IGNORECASE)
_INTERPRETERS = re.compile(r"(?:python|node|ruby|php|perl|bash|sh|deno|tsx|ts-node)[\d.]*")
_TEST_TOOL = re.compile(
    r"(?:.*[_.:/-])?(?:(?:run|execute)_?(?:all_|unit_)?tests?|tests?_?runner|tests?|pytest)(?:_.*)?"
)
_ASKS_ONLY = frozenset("--version --help -h --collect-only --list --listTests --co".split())
_QUIET = frozenset(
    "ls cat grep egrep fgrep rg ag find fd head tail less more wc sort uniq cut awk sed tr column tree stat file "
    "which type pwd cd du df ps env printenv echo printf diff cmp jq yq nl date whoami id true test [ basename "
    "dirname realpath readlink rm mv cp mkdir rmdir touch tee chmod chown ln git export source . set unset pip "
    "pip3 curl wget sleep kill tar unzip zip apt apt-get brew apply_patch patch pushd popd done fi esac for case "
    "in clear history wait exit submit".split()
)
_PASSED = re.compile(
    r"(?im)^[= \t]*\d+ passed(?:, \d+ (?:skipped|warnings?|deselected|xfailed|xpassed))*(?: in\b|[= \t]*$)|"
    r"^OK(?: \(|$)|\btest result: ok\b|\bBUILD SUCCESS|"
    r"^ok\s+\S+|^Tests:\s+(?:\d+ (?:skipped|todo), )?\d+ passed, \d+ total"
)
_FAILS = re.compile(r"(?i)\b[1-9]\d* (?:failed|failures?|errors?|failing)\b|\bFAILED\b|^FAIL\b|\bfailures?[:=] ?[1-9]")


def runs_tests(act: Act) -> bool | None:
    """Whether a call runs tests; None: it might."""
    tool = act.kind
    if not tool.shell:
        if _TEST_TOOL.fullmatch(act.tool):
            return True
        return False if tool.reads or tool.looks or tool.mutates or tool.think or act.flags & Flag.INVALID else None
    parts = parts_of(act.tool, act.call.arguments)
    if parts is None:
        return None
    kinds = {_tests(part) for part in parts}
    return True if True in kinds else None if None in kinds else False


def _tests(part: Part) -> bool | None:
    words = part.words
    if not words:
        return False
    name = posixpath.basename(words[0]).casefold().removesuffix(".cmd").removesuffix(".exe")
    rest = [word for word in words[1:] if not word.startswith("-")]
    if not _ASKS_ONLY.isdisjoint(words):
        return False
    if name in _PROGRAMS:
        return True
    if name in _TASKS:
        tasks = rest[1:2] if rest[:1] in (["run"], ["run-script"]) else rest if name[:4] in _ALL_WORDS else rest[:1]
        return True if any(_TEST_TASK.fullmatch(task.casefold()) for task in tasks) else _task(name, rest)
    file = rest[0] if _INTERPRETERS.fullmatch(name) and rest else words[0] if "/" in words[0] else ""
    if file and file.endswith("manage.py") and rest[1:2] == ["test"]:
        return True
    if file and "-c" not in words and _TEST_FILE.fullmatch(posixpath.basename(file)):
        return True
    return False if name in _QUIET else None


_ALL_WORDS = frozenset(("grad", "mvn", "mvnw"))
"""Beginnings of programs that take several tasks at once."""


def _task(name: str, rest: list[str]) -> bool | None:
    """A task of another name: adding packages runs no tests, all else may."""
    return False if rest[:1] and rest[0] in ("install", "add", "ci", "init", "fmt", "get", "mod", "i") else None


def tests_failed(act: Act) -> bool:
    """Whether a run of tests failed for certain: it is told as an error, and no summary says that all passed."""
    return act.failed and (_PASSED.search(act.text) is None or _FAILS.search(act.text) is not None)


def newest_failure(candidate: Candidate) -> Act | None:
    """The newest run of tests if it failed and nothing since, or beside it, may have been a better one.

    A run that passed after the last change, before this one, was another part of the tests: which of them an answer
    means cannot be told.
    """
    failed: Act | None = None
    passed = False
    for act in candidate.recent:
        if act.result is None or act.flags & (Flag.CLEARED | Flag.PENDING):
            failed, passed = None, True
            continue
        kind = runs_tests(act)
        if kind is True and tests_failed(act):
            failed = None if passed else act
        elif kind is True or (kind is None and not act.failed):
            failed, passed = None, True
        elif act.flags & Flag.MUTATES and not act.failed:
            passed = False
    return failed
