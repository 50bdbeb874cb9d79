"""A line for what is no HTTP and for what has failed: its kind and its place, not what was sent."""

from __future__ import annotations

import pytest
from aiohttp.http_exceptions import BadStatusLine

from guardproxy.http import quiet

SECRET = "sk-SECRET"


def test_a_failure_of_ours_says_where(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet.Quiet, "said", 0)
    counted: list[int] = []
    logger = quiet.Quiet(lambda: counted.append(1))
    try:
        raise KeyError(SECRET)
    except KeyError:
        logger.exception("Error handling %s", SECRET)

    (record,) = caplog.records
    assert record.getMessage().startswith("a connection failed: KeyError at test_quiet.py:")
    assert counted == [1]


def test_what_the_admin_listeners_server_says_of_no_http(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet.Quiet, "said", 0)
    logger = quiet.Quiet(lambda: None)
    try:
        raise BadStatusLine(SECRET)
    except BadStatusLine:
        logger.exception("Error handling %s", SECRET)
    (record,) = caplog.records
    assert record.getMessage() == "a client sent what is not well-formed HTTP (BadStatusLine)"


def test_the_log_is_not_filled(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet.Quiet, "said", 0)
    for _ in range(quiet.SAID):
        quiet.malformed("x")
        quiet.failed(KeyError(SECRET))
    assert len(caplog.records) == quiet.SAID
    assert SECRET not in caplog.text
