"""What holds for every test: logging is as it was before, and no property fails because the machine is busy."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

LEVELS = {name: logging.getLogger(name).level for name in ("guardproxy", "opentelemetry")}
"""As they are before any test."""


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Telemetry sets levels and a handler for its process; the next test must find none of them."""
    for name, level in LEVELS.items():  # what a fixture of a whole module has set must not stay either
        logging.getLogger(name).setLevel(level)
    flags = (logging.logThreads, logging.logProcesses, logging.logMultiprocessing)
    handlers = list(logging.getLogger().handlers)
    yield
    for name, level in LEVELS.items():
        logging.getLogger(name).setLevel(level)
    logging.logThreads, logging.logProcesses, logging.logMultiprocessing = flags
    for handler in [one for one in logging.getLogger().handlers if one not in handlers]:
        if type(handler).__module__.startswith("guardproxy"):
            logging.getLogger().removeHandler(handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test wrote may hold half a character, which no report can carry from one process to another."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report
