"""Kinds of values in the configuration, and what is wrong with others, in words for whoever wrote the file."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

LARGEST_COUNT = 10**12
"""Turns, calls, tokens: above any run, and sums of thousands are still exact in a double, which Lua counts in."""

LONGEST_SECONDS = 366 * 86_400
"""A year: no run or wait is longer, and in milliseconds it suits every timer."""

LARGEST_USD = 10**9
"""Of a limit. In micro-dollars 10^15, below 2^53 (9 * 10^15), up to which doubles are exact."""

LARGEST_PRICE = 100_000
"""Dollars per million tokens; the dearest published are below 1000. The largest body then costs 2.7 * 10^7 dollars."""

LARGEST_HOLD = 10**8
"""Tokens of one answer; a hundred times what models write today."""

LARGEST_MB = 1024
"""A body is held in memory, in several forms."""

LONGEST_LEASE = 86_400
"""Seconds. For so long the holds of a machine that died block its sessions' budgets."""

LONGEST_STORE_MS = 60_000
"""What a request may lose to a frozen store; clients give up after a minute."""

DEFAULT_UPSTREAM = "https://api.openai.com/v1"
"""Where requests go when neither the file nor `OPENAI_BASE_URL` says."""

SHORTEST_SECRET = 16
"""Characters of a secret that signs messages."""

LARGEST_IN_FLIGHT = 1_000_000
"""Requests at once in a worker; each needs two descriptors, and systems end at about a million."""

LARGEST_SETTING = 1000
"""Of a detector's plain number: steps or factors; it looks at a few dozen steps."""

LARGEST_STRETCH = 1_000_000
"""Characters of an answer that are looked at together."""

LARGEST_THRESHOLD = 1_000_000
"""Of a triple: more often than any run repeats itself."""

LONGEST_PAUSE_MS = 86_400_000
"""A day, of a detector's `..._ms`: runs that nobody touched for 15 minutes are over."""


def no_flag(value: object) -> object:
    """Refuse flags where a number is due: YAML reads yes, no, on and off as flags, which would pass for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")  # noqa: TRY004 - what pydantic collects
    return value


def _off(value: object) -> object:
    """YAML reads a bare `off` as a flag."""
    return "off" if value is False else value


DenyStatus = Literal[400, 402, 403, 422, 429]
"""HTTP of a request that a budget refuses."""

Mode = Annotated[Literal["off", "observe", "enforce"], BeforeValidator(_off)]
"""Whether something is not done, only said, or done."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens on a host. Names other than `localhost` are not looked up."""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host.lower() == "localhost"


def _absent_if_empty(value: object) -> object:
    return None if value == "" else value  # `${API_KEY:-}` means: if there is one


def _url(schemes: tuple[str, ...], value: str | None) -> str | None:
    if value is None:
        return None
    try:
        parts = urlsplit(value)
        hosts = parts.netloc.rpartition("@")[2].split(",") if "+" in parts.scheme else [parts.netloc]
        _ = [urlsplit(f"//{host}").port for host in hosts]  # raises when it is no number
    except ValueError as error:
        raise ValueError("is no URL") from error
    if any(letter.isspace() for letter in value):
        raise ValueError("must be a URL without spaces")
    if parts.scheme not in schemes or not (parts.hostname or parts.scheme == "unix"):
        raise ValueError(f"must be a URL that begins with {' or '.join(f'{scheme}://' for scheme in schemes)}")
    return value.rstrip("/")


def _in_front(value: str) -> str:
    """An address that ends before the route: what stood behind a `?` would be shown to clients, and reach nobody."""
    if "?" in value or "#" in value:
        raise ValueError("must end before the route, without a query and a fragment; a key goes into api_key")
    return value


def _network(value: str) -> str:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError as error:
        raise ValueError("must be an address or a network such as 10.0.0.0/8") from error
    return value


def _host(value: str) -> str:
    """A name or an address as it stands in a URL, without port and brackets."""
    name = value.strip("[]").rstrip(".").lower()
    if not name or any(letter.isspace() or letter in "/@" for letter in name):
        raise ValueError("must be a name or an address, without scheme, port and path")
    return name


_http = AfterValidator(partial(_url, ("http", "https")))
_KINDS = ("", "+cluster", "+sentinel")
_redis = AfterValidator(partial(_url, (*(scheme + kind for scheme in ("redis", "rediss") for kind in _KINDS), "unix")))

Number = Annotated[int, BeforeValidator(no_flag)]
Amount = Annotated[float, BeforeValidator(no_flag)]
Count = Annotated[Number, Field(ge=1, le=LARGEST_COUNT)]
Seconds = Annotated[Amount, Field(gt=0, le=LONGEST_SECONDS)]
Days = Annotated[Amount, Field(ge=1, le=LONGEST_SECONDS / 86_400)]
KeptHours = Annotated[Amount, Field(ge=2, le=24 * 30)]
KeptDays = Annotated[Amount, Field(ge=1, le=90)]
LeaseSeconds = Annotated[Amount, Field(ge=1, le=LONGEST_LEASE)]
StoreMs = Annotated[Number, Field(ge=1, le=LONGEST_STORE_MS)]
LimitUsd = Annotated[Amount, Field(gt=0, le=LARGEST_USD)]
Price = Annotated[Amount, Field(ge=0, le=LARGEST_PRICE)]
Hold = Annotated[Number, Field(ge=1, le=LARGEST_HOLD)]
Megabytes = Annotated[Number, Field(ge=1, le=LARGEST_MB)]
InFlight = Annotated[Number, Field(ge=1, le=LARGEST_IN_FLIGHT)]
Port = Annotated[Number, Field(ge=0, le=65535)]
Text = Annotated[str, Field(min_length=1)]
OptionalText = Annotated[str | None, BeforeValidator(_absent_if_empty)]
Network = Annotated[str, AfterValidator(_network)]
Host = Annotated[str, AfterValidator(_host)]
HttpUrl = Annotated[str, _http, AfterValidator(_in_front)]
OptionalHttpUrl = Annotated[OptionalText, _http]
OptionalRedisUrl = Annotated[OptionalText, _redis]
