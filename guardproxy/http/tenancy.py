"""Whose a request is: the tenant of the key that it brings. The key itself goes no further than this module.

`keys`: one of ours, which the store knows by its hash. `passthrough`: the provider's own, which goes on to it; its hash
is the tenant. With `none` there is no `Tenancy` at all, and every request is nobody's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING

from multidict import CIMultiDict, CIMultiDictProxy

from guardproxy import api
from guardproxy.core.memo import Memo
from guardproxy.core.tenant import Tenant
from guardproxy.errors import BadAsk, GuardError, StoreError
from guardproxy.http import virtual_key
from guardproxy.http.heading import plain_error

if TYPE_CHECKING:
    from guardproxy.http.request import Request
    from guardproxy.http.whole import Whole
    from guardproxy.store.registry import Found, Registry

CREDENTIALS = ("Authorization", "api-key", "x-api-key")
"""Headers in which clients send their key: OpenAI's, Azure's, Anthropic's."""

NOT_THEIRS = ("x-goog-api-key", "OpenAI-Organization", "OpenAI-Project")
"""Headers beside those that say who pays at the provider: with a key of ours that is the operator's to say."""

ELSEWHERE = (
    "Helicone-Target-Url",
    "Helicone-Target-Provider",
    "Helicone-OpenAI-Api-Base",
    "Helicone-Fallbacks",
    "x-portkey-custom-host",
    "x-portkey-config",
    "x-portkey-azure-resource-name",
    "X-Original-URL",
    "X-Rewrite-URL",
    "X-HTTP-Method-Override",
    "X-HTTP-Method",
)
"""Headers that tell a gateway to send the request to another address, model or path, with the operator's key."""

CACHE_S = 1.5
"""Seconds for which a worker believes what it has read of a key. With the time to read it a revocation takes 2."""

STALE_S = 600.0
"""Seconds for which a key that was good stays so while the store is away (policy `open`). A new one has to wait."""

CACHED = 4096
"""Keys that a worker keeps in mind, up to twice as many; some 2 MB."""

LONGEST_USER = 128
"""Characters of an end user's name."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read of a key. `tenant` None: it is not to be used, for the reason `code`."""

    read_s: float
    until_s: float
    tenant: Tenant | None
    user_header: str = ""
    code: str = ""


_OURS_ALONE = frozenset(name.lower() for name in (*CREDENTIALS, *NOT_THEIRS, *ELSEWHERE))

_PLACES = frozenset(name.lower() for name in CREDENTIALS)

_SAID = {
    "key_disabled": "this key is switched off; whoever gave it to you can say why",
    "key_expired": "this key has expired; ask whoever gave it to you for a new one",
    "key_replaced": "this secret was replaced by a new one; ask whoever gave it to you for that",
    "invalid_api_key": "this key is not known here (it may have been deleted or replaced); check it or ask for another",
}


class Tenancy:
    """Finds tenants. `mode`: keys or passthrough. `key`: `Keys.key_hash`. `closed`: without the store, nobody."""

    def __init__(
        self,
        mode: str,
        key: bytes,
        registry: Callable[[], Registry],
        *,
        closed: bool = False,
        refused: Callable[[str], None] = lambda _code: None,
    ) -> None:
        self._mode = mode
        self._key = key
        self._registry = registry
        self._closed = closed
        self._refused = refused
        self._known = Memo[str, _Known](CACHED)
        self._asking: dict[str, asyncio.Task[_Known]] = {}

    async def of(self, headers: CIMultiDictProxy[str], address: str) -> Tenant:
        """Whose a request is. `BadAsk` 401 for a key that is missing, wrong, off or over; `StoreError` (503) where the
        store is away and this worker has not seen the key.
        """
        try:
            if self._mode == "passthrough":
                return self._passed(headers)
            secret = self._presented(headers, address)
            return await self._tenant(secret, headers)
        except BadAsk as error:
            self._refused(error.code)
            raise

    async def meet(self, request: Request, surface: ModuleType | None) -> Whole | None:
        """Note whose the request is (`tenant`), or answer in its surface's form why it is nobody's: before its body is
        read.
        """
        try:
            request.tenant = await self.of(request.headers, request.raw_path)
        except GuardError as error:
            after = [("Retry-After", "1")] if error.status == 503 else []
            refused = plain_error(surface or api.SURFACES["chat"], error, after)
            if not request.arrived:
                refused.force_close()  # what comes of the body later must not be read as a request
            return refused
        return None

    def onward(self, headers: CIMultiDictProxy[str]) -> CIMultiDictProxy[str]:
        """The headers of a request without our keys, and without a word on who pays and who is asked: what may go on to
        the provider.
        """
        if self._mode == "passthrough":
            return headers
        return CIMultiDictProxy(CIMultiDict([one for one in headers.items() if one[0].lower() not in _OURS_ALONE]))

    def _passed(self, headers: CIMultiDictProxy[str]) -> Tenant:
        sent = list(dict.fromkeys(_sent(headers)))
        if not sent:
            raise _unauthorized("send your provider's key, in Authorization, api-key or x-api-key", "missing_api_key")
        if len(sent) > 1:  # the provider would take one, and we might count for another
            raise _unauthorized("several different keys came with this request; send one", "several_api_keys")
        if virtual_key.is_ours(sent[0]):
            raise _unauthorized("this proxy takes keys of the provider, not its own; send yours", "invalid_api_key")
        return Tenant(key=f"p{virtual_key.digest(self._key, sent[0])[:24]}")

    def _presented(self, headers: CIMultiDictProxy[str], address: str) -> str:
        """Our key, of a request that has it where it belongs and nowhere else: it would go on from there."""
        ours = list(dict.fromkeys(secret for secret in _sent(headers) if virtual_key.is_ours(secret)))
        if not ours:
            raise _unauthorized(
                "a key of this proxy is needed (gp-…): send it as Authorization: Bearer, api-key or x-api-key",
                "missing_api_key" if not any(_sent(headers)) else "invalid_api_key",
            )
        if len(ours) > 1:
            raise _unauthorized("several different keys came with this request; send one", "several_api_keys")
        secret = ours[0]
        place = "url" if virtual_key.within(address) else next(_elsewhere(headers), "")
        if place:
            said = f"a key stands in {place[:80]!r}, from where it would be passed on; send it in Authorization alone"
            raise BadAsk(said, code="misplaced_api_key", param=place)
        return secret

    async def _tenant(self, secret: str, headers: CIMultiDictProxy[str]) -> Tenant:
        digest = virtual_key.digest(self._key, secret)
        known = self._known[digest]
        if known is None or known.until_s <= asyncio.get_running_loop().time():
            if not virtual_key.genuine(self._key, secret):
                raise _unauthorized(_SAID["invalid_api_key"], "invalid_api_key")
            known = await self._read(digest, known)
        if known.tenant is None:
            raise _unauthorized(_SAID[known.code], known.code)
        user = headers.get(known.user_header, "").strip() if known.user_header else ""
        if not user:
            return known.tenant
        if len(user) > LONGEST_USER or not user.isprintable():
            said = f"must be printable text of at most {LONGEST_USER} characters"
            raise BadAsk(f"{known.user_header} {said}", code="invalid_user", param=known.user_header)
        return replace(known.tenant, user=user)

    async def _read(self, digest: str, old: _Known | None) -> _Known:
        """Ask the store, once for all requests that wait for the same key."""
        loop = asyncio.get_running_loop()
        asking = self._asking.get(digest)
        if asking is None:
            asking = self._asking[digest] = loop.create_task(self._ask(digest, loop.time()))
            asking.add_done_callback(lambda task: self._asked(digest, task))
        try:
            return await asyncio.shield(asking)
        except StoreError:
            good = old is not None and old.tenant is not None and loop.time() - old.read_s < STALE_S
            if self._closed or old is None or not good:
                raise
            return old

    def _asked(self, digest: str, task: asyncio.Task[_Known]) -> None:
        self._asking.pop(digest, None)
        if not task.cancelled():
            task.exception()  # seen, also when nobody waits any more

    async def _ask(self, digest: str, now_s: float) -> _Known:
        found = await self._registry().find(digest)
        return self._known.keep(digest, judged(found, digest, now_s))


def outward(tenancy: Tenancy | None, headers: CIMultiDictProxy[str]) -> CIMultiDictProxy[str]:
    """The headers of a request that may go on to the provider."""
    return headers if tenancy is None else tenancy.onward(headers)


def judged(found: Found, digest: str, now_s: float) -> _Known:
    """What a key is good for, and for how long that may be believed (`now_s`: the clock of this worker's loop)."""
    key, org, team = found.key, found.org, found.team
    secret = next((one for one in key.secrets if virtual_key.same(one.digest, digest)), None) if key else None
    later = now_s + CACHE_S
    if key is None or secret is None or _orphan(found):
        return _Known(now_s, later, None, code="invalid_api_key")
    if not (key.enabled and (org is None or org.enabled) and (team is None or team.enabled)):
        return _Known(now_s, later, None, code="key_disabled")
    if secret.until_ms and secret.until_ms <= found.now_ms:
        return _Known(now_s, later, None, code="key_replaced")
    ends = [end for end in (key.expires_ms, secret.until_ms) if end]
    if ends and min(ends) <= found.now_ms:
        return _Known(now_s, later, None, code="key_expired")
    until_s = min([later, *(now_s + (end - found.now_ms) / 1000 for end in ends)])
    tenant = Tenant(
        org=key.org,
        team=key.team,
        key=key.id,
        policy=key.policy,
        models=key.models,
        upstreams=key.upstreams,
        budgets=(
            *(org.budgets if org else ()),
            *(replace(one, of=f"team:{key.team}") for one in (team.budgets if team else ())),
            *(replace(one, of=f"key:{key.id}") for one in key.budgets),
        ),
        routes=key.routes,
    )
    return _Known(now_s, until_s, tenant, key.user_header)


def _orphan(found: Found) -> bool:
    """A key whose org or team is not there is nobody's. The default org needs not be."""
    key = found.key
    if key is None:
        return True
    return (found.org is None and key.org != Tenant().org) or (bool(key.team) and found.team is None)


def _sent(headers: CIMultiDictProxy[str]) -> Iterator[str]:
    """The keys of a request, without the word that says what they are."""
    for name in CREDENTIALS:
        for value in headers.getall(name, ()):
            word, space, rest = value.strip().partition(" ")
            secret = rest.strip() if space and word.lower() == "bearer" else value.strip()
            if secret and secret.lower() != "bearer":
                yield secret


def _elsewhere(headers: CIMultiDictProxy[str]) -> Iterator[str]:
    return (name for name, value in headers.items() if virtual_key.within(value) and name.lower() not in _PLACES)


def _unauthorized(message: str, code: str) -> BadAsk:
    return BadAsk(message, status=401, code=code)
