"""The operators' side of the parent: the admin listener, its TLS, who may use it, and the audit of what they do."""

from __future__ import annotations

import logging
import ssl
from contextlib import AsyncExitStack

from aiohttp import web

from guardproxy._settings import Admin as AdminSection
from guardproxy.errors import ConfigError, StoreError
from guardproxy.http import whereabouts
from guardproxy.http.admin import Admin, Sight
from guardproxy.http.admin_v1 import AdminV1
from guardproxy.http.auditing import Actor, Notes
from guardproxy.http.gate import Gate, loopback
from guardproxy.http.quiet import Quiet
from guardproxy.http.standing import Standing
from guardproxy.http.switch import Switch
from guardproxy.http.tokens import Keyring
from guardproxy.http.worker import listener
from guardproxy.secrets import Keys
from guardproxy.store.redis import Store

_log = logging.getLogger(__name__)


class Operators:
    """One a parent. `open` listens; `tend` writes what the store had missed; `reload` reads the certificate again."""

    def __init__(
        self, section: AdminSection, store: Store, keys: Keys, switch: Switch, standing: Standing | None = None
    ) -> None:
        self._standing = standing
        self._section = section
        self._store = store
        self._keys = keys
        self._switch = switch
        self._keyring = Keyring(store, keys.key_hash)
        self._gate = Gate(self._keyring, section.trusted_proxies)
        self._notes = Notes(store)
        self._tls: ssl.SSLContext | None = None
        self.mark = whereabouts.mark()
        self.port = 0

    @property
    def scheme(self) -> str:
        """http, or https with a certificate."""
        return "https" if self._section.tls.cert else "http"

    async def open(self, stack: AsyncExitStack, sight: Sight) -> None:
        """Listen until the stack is closed. OSError where it cannot; ConfigError for a certificate of no use."""
        section = self._section
        self._tls = _context(section)
        sock = listener(section.host, section.port, shared=False)
        api = AdminV1(
            self._store,
            self._keys.ledger,
            gate=self._gate,
            keyring=self._keyring,
            switch=self._switch,
            notes=self._notes,
            hash_key=self._keys.key_hash,
            budgets=lambda: self._standing.config.budget_values() if self._standing else (),
            standing=self._standing,
        )
        app = Admin(sight, api.application(), self._gate, self._notes, self.mark).application()
        runner = web.AppRunner(app, access_log=None, logger=Quiet(lambda: None))
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        stack.callback(self._notes.lost)
        await web.SockSite(runner, sock, ssl_context=self._tls).start()
        self.port = int(sock.getsockname()[1])
        await self._look_at_tokens()

    async def _look_at_tokens(self) -> None:
        """Know from the start whether there are tokens: the panic switch works without the store, too."""
        try:
            used = await self._keyring.used()
        except StoreError:
            return
        if used and self._tls is None and not loopback(self._section.host):
            _log.warning("the admin listener is on %s without TLS: tokens cross the net readable", self._section.host)

    async def tend(self) -> None:
        """Tell the store what it missed."""
        await self._switch.catch_up()
        await self._notes.catch_up()

    async def reload(self, changed: list[str]) -> None:
        """Use the certificate as it is now, for new connections, and say in the audit what else was read anew."""
        if self._tls is not None:
            _context(self._section)  # a pair that does not fit would leave the old one half replaced
            _load(self._tls, self._section)
        diff = dict.fromkeys(changed, (None, "changed"))
        await self._notes.note(Actor("SIGHUP").did("config.reload", "configuration", diff=diff))


def _context(section: AdminSection) -> ssl.SSLContext | None:
    if not section.tls.cert:
        return None
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    _load(made, section)
    return made


def _load(context: ssl.SSLContext, section: AdminSection) -> None:
    tls = section.tls
    try:
        context.load_cert_chain(tls.cert or "", tls.key, password=_no_password)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        said = getattr(error, "strerror", None) or error
        raise ConfigError(f"admin.tls: cannot use {tls.cert} and {tls.key}: {said}", param="admin.tls") from error


def _no_password() -> str:
    raise ValueError("the key is encrypted; nobody is here to type its password")
