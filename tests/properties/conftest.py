"""A real store for the property over HTTP: one Valkey for all examples."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded


@pytest.fixture(scope="session")
def server() -> Iterator[Embedded]:
    with embedded.scratch() as running:
        yield running
