"""What holds for every test: logging is as it was before, and no property fails because the machine is busy.

And for a whole run: files that take long begin first, so that no core is idle at the end.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import as_written

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

LONG = """
    api/test_fuzz test_company accept/test_many_tenants http/test_serve accept/test_dev_over_http accept/test_people
    verify/test_admin_document http/test_surfaces verify/test_prometheus accept/test_budget_race
    accept/test_store_faults generated/test_generated verify/test_cluster accept/test_episodes verify/test_image
    verify/test_restore api/test_chat_gate http/test_interventions http/test_operators test_handover
    api/test_chat_watch http/test_approving http/test_stopping store/test_tenants properties/test_verdicts
    http/test_shape accept/test_text_form accept/test_one_trace http/test_entitled test_tenants
    properties/test_pairing accept/test_recordings http/test_crew http/test_scenes http/test_tenancy
    http/test_attempt accept/test_tenant_race accept/test_drain accept/test_healthy accept/test_background
""".split()
"""Files of more than ten seconds in `make test` or `make verify`, the longest first."""

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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """For `--dist loadfile --no-loadscope-reorder`, which gives the files out as they stand here."""
    places = {config.rootpath / "tests" / f"{name}.py": place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish() -> None:
    """What is there now stays to the end: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test wrote may hold half a character, which no report can carry from one process to another.

    And where the modules are compiled, a test that hands them a double is skipped: they refuse it.
    """
    report = yield
    reason = as_written.refused(call.excinfo.value if call.excinfo else None)
    if report.failed and reason:
        report.outcome, report.longrepr = "skipped", (str(item.path), item.reportinfo()[1] or 0, f"Skipped: {reason}")
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report
