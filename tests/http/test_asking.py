"""Commands ask the admin API: that of a listener, or the same on the store. Beside a proxy: `tests/test_tenants.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from guardproxy import secrets
from guardproxy.config import Config, build
from guardproxy.errors import BadAsk, GuardError
from guardproxy.http import asking, client, reach
from guardproxy.store import embedded
from guardproxy.store.audit import Entry
from guardproxy.store.redis import Store


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    monkeypatch.setenv(secrets.VARIABLE, "a secret of this test's own")
    for name in (asking.VARIABLE, client.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    with embedded.scratch() as server:
        yield build({"store": {"url": f"unix://{server.socket_path}", "data_dir": str(tmp_path)}})


def audit(config: Config) -> list[Entry]:
    async def work(store: Store) -> list[Entry]:
        found, _ = await store.audit.read(100)
        return found

    return reach.ask(config, work)


def test_on_the_store_itself(config: Config) -> None:
    admin = asking.admin(config, by="anna")
    assert isinstance(admin, asking.Here)
    assert admin.ask("POST", "/orgs", body={"name": "acme"})["made_by"] == "anna"
    with pytest.raises(GuardError, match="already"):
        admin.ask("POST", "/orgs", body={"name": "acme"})
    with pytest.raises(BadAsk) as told:
        admin.ask("POST", "/orgs", body={"name": "A"})
    assert told.value.param == "name"
    with pytest.raises(BadAsk) as told:
        admin.ask("GET", "/orgs", {"cursr": "x"})
    assert told.value.param == "cursr"
    for path in ("/orgs/none", "/none", "/orgs/acme/none"):
        with pytest.raises(GuardError) as missing:
            admin.ask("GET", path)
        assert missing.value.status == 404
    (entry,) = audit(config)
    assert (entry.what, entry.actor, entry.kind, entry.role) == ("org.create", "anna", "command", "owner")


def test_all_pages(config: Config) -> None:
    admin = asking.admin(config)

    class Short:
        """Answers in small pages."""

        def ask(self, method: str, path: str, query: dict[str, str], body: object = None) -> object:
            return admin.ask(method, path, {**query, "limit": "2"})

    for number in range(5):
        admin.ask("POST", "/teams", {"org": "default"}, {"name": f"t{number}"})
    found = asking.pages(Short(), "/teams", {"org": "default"})  # type: ignore[arg-type]
    assert [one["name"] for one in found] == [f"t{number}" for number in range(5)]


def test_who_is_asked(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said wins over the environment, that over what is found; one that was named and is away is an error."""
    said: list[tuple[object, ...]] = []

    def ask(*words: object) -> object:
        said.append(words)
        return {}

    monkeypatch.setattr(client, "ask", ask)
    asking.admin(config, "http://one", "anna").ask("PATCH", "/keys/k1", {"org": "a b"}, {"enabled": True})
    monkeypatch.setenv(asking.VARIABLE, "http://two")
    monkeypatch.setenv(client.VARIABLE, "gpa-x")
    asking.admin(config).ask("DELETE", "/keys/k1")
    asking.admin(config).ask("GET", "/keys/k1")
    assert said == [
        ("http://one", "PATCH", "/admin/v1/keys/k1?org=a+b", {"by": "anna", "enabled": True}, ""),
        ("http://two", "DELETE", "/admin/v1/keys/k1", {}, "gpa-x"),
        ("http://two", "GET", "/admin/v1/keys/k1", None, "gpa-x"),
    ]


NAMES = {"web": "web", "a/b": "a%2Fb", "..": "%2E%2E", "a\udcff": "a%3F", "é": "%C3%A9", "?x=1": "%3Fx%3D1"}


@pytest.mark.parametrize(("name", "part"), NAMES.items())
def test_a_name_is_one_part_of_a_path(name: str, part: str) -> None:
    assert asking.named(name) == part
