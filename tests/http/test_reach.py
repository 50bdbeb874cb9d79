"""A command finds the store: by URL, or the embedded one of a data directory, whether or not a proxy runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardproxy.config import build
from guardproxy.errors import ConfigError, GuardError, StoreError
from guardproxy.http import reach
from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.store.kit import ORG, Agent


async def _write(store: Store) -> None:
    await Agent(store, session="s").turn()


async def _names(store: Store) -> list[str]:
    return [one.session for one in await store.list_sessions(ORG)]


def test_embedded_and_nobody_serves(tmp_path: Path) -> None:
    """Started, stopped, and what was written is there the next time."""
    config = build({"store": {"data_dir": str(tmp_path / "data")}})
    embedded.start(config.data_dir).stop()
    reach.ask(config, _write)

    assert reach.ask(config, _names) == ["s"]


@pytest.mark.parametrize(("there", "why"), [(False, "does not exist"), (True, "holds no guardproxy store")])
def test_looking_makes_no_store(there: bool, why: str, tmp_path: Path) -> None:
    """A wrong --data-dir is an error and leaves nothing behind."""
    folder = tmp_path / "data"
    if there:
        folder.mkdir()
        (folder / "notes.txt").touch()

    with pytest.raises(ConfigError, match=rf"the data directory {folder} {why}: no proxy has run on it"):
        reach.ask(build({"store": {"data_dir": str(folder)}}), _names)
    assert [path.name for path in tmp_path.rglob("*")] == (["data", "notes.txt"] if there else [])


def test_by_url(server: Embedded) -> None:
    config = build({"store": {"url": f"unix://{server.socket_path}"}})

    assert reach.ask(config, Store.ping) is None


def test_a_store_that_is_away() -> None:
    with pytest.raises(StoreError, match=r"the store redis://127.0.0.1:9/0 cannot be reached"):
        reach.ask(build({"store": {"url": "redis://127.0.0.1:9"}}), Store.ping)


async def test_an_unknown_session_is_named_with_some_that_there_are(store: Store) -> None:
    said = await reach.unknown(store, ORG, "x")
    assert isinstance(said, GuardError)
    told = f"that is org {ORG}, another is asked with --org NAME (?org=NAME in the admin API)"
    assert said.message == f"the store has no session 'x'; it has none at all; {told}"
    await _write(store)
    assert (await reach.unknown(store, ORG, "x")).message.endswith(f"; the newest are s; {told}")


def test_options_say_the_store_and_whose(tmp_path: Path) -> None:
    """As they are typed behind a command that is printed: it is about the same run."""
    assert reach.options(None, None) == ""
    assert reach.options(None, None, "acme") == " --org acme"
    told = reach.options(tmp_path / "a b", "d", "acme")
    assert told == f" --config '{tmp_path}/a b' --data-dir {Path.cwd()}/d --org acme"


def test_what_a_list_says_of_others() -> None:
    assert reach.others("runs of others", []) == ""
    assert reach.others("runs of others", ["a\x1b", "b"]).startswith("runs of others: a")
    assert "\x1b" not in reach.others("runs of others", ["a\x1b", "b"])
    assert reach.others("runs of others", [*"abcdefg"]) == "runs of others: a, b, c, d, e and 2 more (--org NAME)"
