"""The sections of the configuration for several upstreams: which models go where, and when another one is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from guardproxy import _kinds as kinds
from guardproxy._kinds import HttpUrl, Number, Seconds, Text
from guardproxy._settings import Section

RESERVED = "default"
"""The name of the section `upstream`."""

MOST_UPSTREAMS = 8
"""Upstreams that one attempt may go to: a client waits for each of them."""

MOST_FAILURES = 1000
"""Failures in a row before an upstream is put aside: above it the others are never asked in time."""


class NamedUpstream(Section):
    """A provider for the models that `models` (globs, as they are written) name; of several the first is asked first.

    `rename`: what a model (a glob) is called there. Time-outs as in `upstream`. It has no `retries`: where a
    connection is refused the next upstream is asked.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    url: HttpUrl
    api_key: kinds.OptionalText = Field(default=None, repr=False)
    models: tuple[Text, ...] = ("*",)
    rename: dict[Text, Text] = Field(default_factory=dict)
    connect_seconds: Seconds = 10.0
    first_byte_seconds: Seconds = 600.0
    idle_seconds: Seconds = 300.0

    @model_validator(mode="after")
    def _usable(self) -> NamedUpstream:
        if self.name == RESERVED:
            raise ValueError(f"name: {RESERVED!r} is the section `upstream`; take another one")
        if not self.models:
            raise ValueError("models: name at least one, '*' for all")
        return self


class Failover(Section):
    """When another upstream is asked: no connection, 429 and 5xx, before the first byte of an answer.

    `most`: upstreams asked for one attempt. `failures` in a row put an upstream aside for `aside_seconds`, then one
    request tries it again. `stay: session`: a session stays where it was served, for its prompt cache.
    """

    most: Annotated[Number, Field(ge=1, le=MOST_UPSTREAMS)] = 3
    failures: Annotated[Number, Field(ge=1, le=MOST_FAILURES)] = 3
    aside_seconds: Seconds = 30.0
    stay: Literal["session", "none"] = "session"


def twice(upstreams: Sequence[NamedUpstream]) -> str:
    """The first name that two of them have; "" for none."""
    names = [one.name for one in upstreams]
    return next((name for at, name in enumerate(names) if name in names[:at]), "")


def warnings(
    upstreams: Sequence[NamedUpstream], priced: Iterable[str], *, default: bool, keyless: Mapping[str, str]
) -> Iterator[str]:
    """What the configuration says in vain, in sentences. `priced`: the globs of `prices.models`; `default`: whether
    there is an `upstream` beside them; `keyless`: addresses by name of those that have no key of ours.
    """
    globs = list(chain.from_iterable(one.models for one in upstreams))
    if default and any(covers(glob, "*") for glob in globs):
        yield "upstream: no model is left for it (an entry of upstreams takes all); it gets routes without a model only"
    for one in upstreams:
        yield from _in_vain(f"upstreams.{one.name}.models", one.models)
        for glob in one.rename:
            if not any(covers(model, glob) or covers(glob, model) or meet(model, glob) for model in one.models):
                yield f"upstreams.{one.name}.rename: {glob!r} can never match: no glob of its models does"
        yield from _in_vain(f"upstreams.{one.name}.rename", tuple(one.rename))
    yield from _in_vain("prices.models", tuple(priced))
    if len({_host(url) for url in keyless.values()}) > 1:
        yield f"{', '.join(keyless)}: without an api_key the client's own key is sent to each of these upstreams"


def _in_vain(where: str, globs: Sequence[str]) -> Iterator[str]:
    """The globs that stand behind one which matches all that they do."""
    for at, glob in enumerate(globs):
        before = next((other for other in globs[:at] if covers(other, glob)), None)
        if before is not None:
            yield f"{where}: {glob!r} can never match: {before!r} stands before it and takes all of it"
        elif glob != glob.strip():
            yield f"{where}: {glob!r} begins or ends with a space, which no model's name does"


def unpaid(keyless: Mapping[str, str]) -> Iterator[str]:
    """Providers that get no key at all, where no client's goes on. Over plain HTTP it may be a server of one's own."""
    for name, url in keyless.items():
        if url.startswith("https:") and "@" not in urlsplit(url).netloc:
            where = f"upstreams.{name}" if name else "upstream"
            yield f"{where}: auth is keys, so no client's key goes on, and {_host(url)} gets none: set {where}.api_key"


def without_password(url: str) -> str:
    """An address as it may be shown: a name and a password in it are a key."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def covers(glob: str, other: str) -> bool:
    """Whether `glob` surely matches everything that `other` does. Of sets and `?` only the simple cases are seen."""
    if glob == other or not glob.strip("*"):
        return bool(glob)
    if any(sign in glob for sign in "?[") or "[" in other:
        return False
    return fnmatchcase(other, glob)  # the signs of `other` can only have been taken by a `*`


def meet(one: str, other: str) -> bool:
    """Whether a name may match both globs; in doubt it may."""
    head, tail = _plain(one), _plain(other)
    starts = all(a == b for a, b in zip(head[0], tail[0], strict=False))
    ends = all(a == b for a, b in zip(head[1][::-1], tail[1][::-1], strict=False))
    return starts and ends


def _plain(glob: str) -> tuple[str, str]:
    """The plain text that a glob begins and ends with; of one without signs both are the whole."""
    places = [at for at, sign in enumerate(glob) if sign in "*?[]"]
    return (glob[: places[0]], glob[places[-1] + 1 :]) if places else (glob, glob)
