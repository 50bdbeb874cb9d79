"""Kinds of values in the configuration, and what is wrong with others, in words for whoever wrote the file."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field


def no_flag(value: object) -> object:
    """Refuse flags where a number is due: YAML reads yes, no, on and off as flags, which would pass for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")  # noqa: TRY004 - what pydantic collects
    return value


def _absent_if_empty(value: object) -> object:
    return None if value == "" else value  # `${API_KEY:-}` means: if there is one


def _url(schemes: tuple[str, ...], value: str | None) -> str | None:
    if value is None:
        return None
    try:
        parts = urlsplit(value)
        _ = parts.port  # raises when it is no number
    except ValueError as error:
        raise ValueError("is no URL") from error
    if parts.scheme not in schemes or not (parts.hostname or parts.scheme == "unix"):
        raise ValueError(f"must be a URL that begins with {' or '.join(f'{scheme}://' for scheme in schemes)}")
    return value.rstrip("/")


_http = AfterValidator(partial(_url, ("http", "https")))
_redis = AfterValidator(partial(_url, ("redis", "rediss", "unix")))

Number = Annotated[int, BeforeValidator(no_flag)]
Amount = Annotated[float, BeforeValidator(no_flag)]
Count = Annotated[Number, Field(ge=1)]
Seconds = Annotated[Amount, Field(gt=0)]
Dollars = Annotated[Amount, Field(ge=0)]
Port = Annotated[Number, Field(ge=0, le=65535)]
Text = Annotated[str, Field(min_length=1)]
OptionalText = Annotated[str | None, BeforeValidator(_absent_if_empty)]
HttpUrl = Annotated[str, _http]
OptionalHttpUrl = Annotated[OptionalText, _http]
OptionalRedisUrl = Annotated[OptionalText, _redis]
