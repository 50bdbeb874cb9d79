"""The panic switch: every intervention off, everywhere, within two seconds."""

from __future__ import annotations

from guardproxy.errors import GuardError
from guardproxy.http.objects._kinds import Model
from guardproxy.http.objects._route import Call, Route, Told
from guardproxy.http.switch import Switch, stood


class Panic(Model):
    """How the switch stands. `pending`: the store is away, so it holds as soon as that answers."""

    on: bool
    pending: bool = False


class Throw(Model):
    """How it is to stand."""

    on: bool


def _switch(call: Call) -> Switch:
    if call.switch is None:
        raise GuardError("this listener has no panic switch", status=404, code="not_found")
    return call.switch


def _told(on: bool, pending: bool) -> Told:  # noqa: FBT001 - a switch
    return Told(Panic(on=on, pending=pending), status=202 if pending else 200, etag="on" if on else "off")


async def _show(call: Call) -> Told:
    """Whether every intervention is switched off."""
    return _told(*await _switch(call).panic(None))


async def _throw(call: Call) -> Told:
    """Switch every intervention off, or on again."""
    switch, on = _switch(call), call.body.on
    if call.expect:
        now, _ = await switch.panic(None)
        call.unchanged("on" if now else "off")
    before = await stood(switch.panic)
    told = _told(*await switch.panic(on))
    entry = call.actor.did("panic.set", "panic", diff={"on": (before, on)})
    return Told(told.body, status=told.status, etag=told.etag, entry=entry)


ROUTES = (
    Route("GET", "/panic", "viewer", _show, Panic, about="either", etag=True, also=(202,), errors=(404,)),
    Route(
        "PUT",
        "/panic",
        "operator",
        _throw,
        Panic,
        body=Throw,
        example={"on": True},
        about="whole",
        etag=True,
        also=(202,),
        errors=(404,),
    ),
)
