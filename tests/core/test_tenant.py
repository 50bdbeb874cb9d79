"""Who pays, and what the key may use."""

from __future__ import annotations

import pytest

from guardproxy.core import session
from guardproxy.core.tenant import NOBODY, Tenant, matches, owned
from guardproxy.errors import BadAsk
from tests.core.test_session import PRINTER, TASK, ask

ONE = Tenant("acme", "web", "k1")

MATCHES: list[tuple[str, tuple[str, ...], bool]] = [
    ("gpt-5", ("gpt-5",), True),
    ("gpt-5-mini", ("gpt-5",), False),
    ("gpt-5-mini", ("gpt-5*",), True),
    ("GPT-5", ("gpt-5",), False),
    ("a/b", ("a/*",), True),
    ("gpt-5\nx", ("gpt-5",), False),
    ("x\ngpt-5", ("gpt-5",), False),
    ("o1", ("o[13]",), True),
    ("o2", ("o[13]", "o?"), True),
    ("anything", (), False),
    ("a.c", ("a?c",), True),
    ("abc", ("a.c",), False),
]


@pytest.mark.parametrize(("name", "globs", "expected"), MATCHES)
def test_matches(name: str, globs: tuple[str, ...], expected: bool) -> None:
    assert matches(name, globs) is expected


OWNED: list[tuple[str, str, str]] = [
    ("", "run", "run"),
    ("", "", ""),
    ("k1:", "", ""),
    ("k1:", "run", "k1:run"),
    ("k1:", "k1:run", "k1:run"),
    ("k1:", "k12:run", "k1:k12:run"),
    ("k1:", "k2:run", "k1:k2:run"),
    ("k1:", "d-0123456789ab-1", "k1:d-0123456789ab-1"),
    ("k1:", f"a-gp-{'x' * 42}-b", "k1:a-gp--b"),
    ("", f"gp-{'x' * 42}", "gp-"),
    ("", "gp-short", "gp-short"),
]


@pytest.mark.parametrize(("owner", "name", "kept"), OWNED)
def test_owned(owner: str, name: str, kept: str) -> None:
    assert owned(owner, name) == kept
    assert owned(owner, kept) == kept  # what we answered may be sent back


def test_no_two_tenants_have_the_same_scope_or_owner() -> None:
    tenants = [NOBODY, Tenant("acme"), ONE, Tenant("acme", "", "k2"), Tenant("default", "", "k3")]
    assert len({one.scope for one in tenants}) == len(tenants)
    assert [one.owner for one in tenants] == ["", "", "k1:", "k2:", "k3:"]
    assert ONE.scope == Tenant("acme", "other", "k1", user="mia").scope  # a key that moves keeps its runs


@pytest.mark.parametrize("fresh", [True, False])
def test_a_conversation_is_told_apart_by_its_tenant(fresh: bool) -> None:
    messages = [TASK] if fresh else [TASK, {"role": "assistant", "content": "Done. " * 60}, TASK]
    asked = ask(*messages)
    found = []
    for tenant in (NOBODY, ONE, Tenant("acme", "", "k2")):
        scope = tenant.scope if tenant.key else ""
        who = session.identify(asked, PRINTER, tenant.scope, tenant.owner)
        found.append({session.observe(asked, PRINTER, 0, scope).conversation, who.head, *who.links})
        assert who.owner == tenant.owner
    assert not found[0] & found[1]
    assert not found[1] & found[2]
    assert not found[0] & found[2]
    assert session.observe(asked, PRINTER, 0).conversation in found[0]  # nobody's is what it always was


def test_what_may_be_asked() -> None:
    Tenant(models=("gpt-*",)).may_ask("gpt-5")
    NOBODY.may_ask("")
    with pytest.raises(BadAsk) as told:
        Tenant(models=("gpt-*",)).may_ask("o3" * 500)
    assert (told.value.status, told.value.code, told.value.param) == (404, "model_not_found", "model")
    assert len(told.value.message) < 400
    for key in ("gp-" + "a" * 42, "x/gp-" + "a" * 42, "gpa-" + "a" * 43):
        with pytest.raises(BadAsk) as told:
            Tenant(models=("*",)).may_ask(key)
        assert (told.value.status, told.value.code) == (400, "misplaced_api_key")
        assert "aaa" not in told.value.message
    Tenant().may_ask("gp-small")


ROUTES: list[tuple[tuple[str, ...], str, str, bool]] = [
    (("*",), "DELETE", "/v1/files/f", True),
    ((), "GET", "/v1/models", True),
    ((), "HEAD", "/v1/models/x", True),
    ((), "POST", "/v1/models", False),
    ((), "GET", "/v1/models2", False),
    (("/v1/embeddings",), "POST", "/v1/embeddings", True),
    (("/v1/embeddings",), "POST", "/v1/embeddings/x", False),
    (("/v1/files*",), "GET", "/v1/files/f/content", True),
]


@pytest.mark.parametrize(("routes", "method", "route", "expected"), ROUTES)
def test_what_may_be_passed_on(routes: tuple[str, ...], method: str, route: str, expected: bool) -> None:
    if expected:
        Tenant(routes=routes).may_pass(method, route)
        return
    with pytest.raises(BadAsk) as told:
        Tenant(routes=routes).may_pass(method, route)
    assert told.value.status == 403


OPENED = {
    "a plain key": ({}, "/v1/rerank", "keys update k1 --route /v1/rerank"),
    "one that has others": (
        {"routes": ("/v1/files",)},
        "/v1/rerank",
        "keys update k1 --route /v1/rerank, and one --route for each that it has (/v1/files)",
    ),
    "for certain models": ({"models": ("gpt-*",)}, "/v1/rerank", "keys create --route /v1/rerank"),
    "words of a client's": ({}, "/v1/x;$(reboot)", "keys update k1 --route ROUTE"),
}


@pytest.mark.parametrize("name", OPENED)
def test_who_opens_a_route_and_how(name: str) -> None:
    more, route, command = OPENED[name]
    with pytest.raises(BadAsk) as told:
        Tenant(**{"key": "k1", "routes": (), **more}).may_pass("POST", route)  # type: ignore[arg-type]

    assert told.value.message.partition(" of all organisations ")[2].partition("guardproxy ")[2] == command
