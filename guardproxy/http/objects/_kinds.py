"""Kinds of values that objects share, and pages of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from guardproxy.http import keyring, people

MOST, USUAL = 200, 50
"""Items of a page, at most and unless told."""

FAR = 1000
"""Items from the start that a cursor may point to: nothing is listed that is farther."""

LONGEST_BY = 200
"""Characters of the name that a request may give; the token's is put beside it."""


class Model(BaseModel):
    """What comes in or goes out: frozen, no unknown names, nothing read as what it is not."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)


def _whole(value: object) -> object:
    """5.0 is a whole number in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _digits(value: object) -> object:
    """The number that a query says, in plain digits; anything else is left for the next check to refuse."""
    plain = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16
    return int(str(value)) if plain else value


WHOLE = BeforeValidator(_whole)
"""Behind the bounds of a whole number in a body."""

DIGITS = BeforeValidator(_digits)
"""Behind the bounds of a whole number in a query."""

NAME = Field(json_schema_extra={"pattern": keyring.NAME.pattern, "minLength": 1, "maxLength": 63})
"""What is said of the name of an org or a team; `http.keyring` refuses others, in words."""

Line = Annotated[str, Field(max_length=people.LONGEST)]
Milliseconds = Annotated[int, Field(ge=0, description="Since 1970, by the store's clock")]


class Signed(Model):
    """What may be said with every change."""

    by: Annotated[str | None, Field(max_length=LONGEST_BY)] = None
    why: Line | None = None


class Page(Model):
    """Which part of a list. `cursor`: what `next` of the part before said."""

    limit: Annotated[int, Field(ge=1, le=MOST), DIGITS] = USUAL
    cursor: Annotated[int, Field(ge=0, le=FAR), DIGITS] = 0


class Named(Model):
    """Which part of a list that is longer than `FAR`. `cursor`: what `next` of the part before said."""

    limit: Annotated[int, Field(ge=1, le=MOST), DIGITS] = USUAL
    cursor: Annotated[str, Field(max_length=200)] = ""


class Problem(BaseModel):
    """An error (RFC 9457). `code` is for programs, `param` names what is wrong in the request."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    param: str | None = None


class Document(BaseModel):
    """An OpenAPI 3.1 document."""

    model_config = ConfigDict(extra="allow")

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]


M = TypeVar("M", bound=Model)
T = TypeVar("T")


def listing(item: type[M]) -> type[Any]:
    """The model of a page of such items."""
    next_: Any = (str | None, Field(default=None, description="The cursor of the next page, or null"))
    about = f"A page of {item.__name__}."
    return create_model(f"{item.__name__}Page", __base__=Model, __doc__=about, items=(list[item], ...), next=next_)  # type: ignore[valid-type]


def paged(page: type[Any], items: Sequence[Model], asked: Page) -> Any:
    """A page of `items`, of which there is one too many if another page follows."""
    limit, end = asked.limit, asked.cursor + asked.limit
    more = len(items) > limit and end <= FAR
    return page(items=list(items[:limit]), next=str(end) if more else None)


def after(page: type[Any], found: Sequence[T], asked: Named, place: Callable[[T], str], shown: Callable[[T], M]) -> Any:
    """A page of what lies behind the cursor. `found` is in the order of `place`: what comes or goes moves no other."""
    rest = [one for one in found if place(one) > asked.cursor]
    kept = rest[: asked.limit]
    return page(items=[shown(one) for one in kept], next=place(kept[-1]) if len(rest) > len(kept) else None)
