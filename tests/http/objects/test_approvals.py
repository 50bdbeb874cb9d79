"""Approvals in the admin API beside `tests/http/test_admin_v1.py`: what the audit says of a decision."""

from __future__ import annotations

from guardproxy.store.redis import Store
from tests.http import admin_api


async def test_what_the_audit_says(store: Store) -> None:
    """Who decided what and why; that arguments were edited, and not to what."""
    async with admin_api.serving(store) as api:
        await api.fill()
        await api.ask("POST", "/approvals/a1/approve", {"by": "ann", "why": "a copy", "arguments": {"path": "b"}})
        await api.ask("POST", "/approvals/q1/answer", {"by": "ann", "text": "the second"})
        assert (await api.ask("POST", "/approvals/a1/deny", {})).status == 409
        entries = await api.entries()

    assert [(one.what, one.subject, one.why) for one in entries] == [
        ("approval.approved", "a1", "a copy"),
        ("approval.answered", "q1", ""),
    ]
    assert entries[0].diff == {"state": ("pending", "approved"), "by": ("", "ann"), "edited": (False, True)}


async def test_organisations_are_apart(store: Store) -> None:
    async with admin_api.serving(store) as api:
        await api.fill()
        assert (await api.ask("GET", "/approvals/a1?org=other")).status == 404
        assert (await api.ask("GET", "/approvals?org=other&state=any")).body["items"] == []
        assert (await api.ask("POST", "/approvals/a1/deny?org=other", {})).status == 404
        assert (await api.ask("GET", "/approvals/a1")).body["state"] == "pending"
