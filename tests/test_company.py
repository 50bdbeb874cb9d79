"""A company with two organisations in five commands, as the README has them; policies that change while it works; and
what its operators do. All of it on the embedded store and on a Redis Cluster.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.running import Running, fetch, provider, until
from tests.store.processes import Nodes, cluster

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.verify  # a dozen processes each
EXAMPLE = str(ROOT / "deploy" / "guardproxy.example.yaml")
SECRET = re.compile(r"gp-[0-9A-Za-z]{42}")


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with provider() as url:
        yield url


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with cluster(replicas=1) as made:
        yield made


@pytest.fixture(params=["embedded", "cluster"])
def store(request: pytest.FixtureRequest) -> dict[str, str]:
    """What the environment says of the store, which is empty."""
    if request.param == "embedded":
        return {}
    nodes: Nodes = request.getfixturevalue("nodes")
    for node in nodes.nodes[:3]:  # nobody was killed here
        node.ask("FLUSHALL")
    return {"GUARDPROXY_REDIS_URL": nodes.url, "GUARDPROXY_SECRET": "a secret for tests only, long enough"}


def commands() -> list[str]:
    """The block of the README."""
    text = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"```\n(export GUARDPROXY_ADMIN_TOKEN=\$\(.*?)```", text, re.DOTALL)
    found: list[str] = block.strip().split("\n")
    return found


def company(folder: Path, upstream: str, store: dict[str, str], *more: str) -> Running:
    """`guardproxy serve` on the example, with keys; it shares its port, store and log with nobody."""
    env = {"XDG_DATA_HOME": str(folder / "home"), "OPENAI_BASE_URL": upstream, "GUARDPROXY_UPSTREAM_KEY": "sk-provider"}
    arguments = ("--config", EXAMPLE, "--auth", "keys", "--host", "127.0.0.1", *more)
    return Running(folder, *arguments, env=env | store)


def shell(data: Path, lines: list[str], token: str = "", store: dict[str, str] | None = None) -> str:
    """Run the lines as they are typed; what they print."""
    which = f'--data-dir "{data}"' + (f' --config "{EXAMPLE}"' if store else "")
    words = f'guardproxy() {{ "{sys.executable}" -m guardproxy "$@" {which}; }}\nset -e\n'
    plain = {name: text for name, text in os.environ.items() if not name.startswith("GUARDPROXY_")}
    plain |= {"PYTHONPATH": str(ROOT)} | ({"GUARDPROXY_ADMIN_TOKEN": token} if token else {}) | (store or {})
    done = subprocess.run(
        ["/bin/sh", "-c", words + "\n".join(lines)],
        capture_output=True,
        text=True,
        check=False,
        env=plain,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(base: str, key: str, text: str = "hi") -> tuple[int, dict[str, str], Any]:
    body = json.dumps({"model": "0", "messages": [{"role": "user", "content": text}]}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}", "Connection": "close"}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"{base}/chat/completions", body, headers), timeout=30
        ) as got:
            return got.status, dict(got.headers), json.loads(got.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), json.loads(error.read())


def admin(proxy: Running, token: str, method: str, path: str, body: Any = None) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{proxy.admin}/admin/v1{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as got:
        return json.loads(got.read())


TOKEN = 'printf "token %s\\n" "$GUARDPROXY_ADMIN_TOKEN"'
"""A line that tells the owner's token."""


def test_two_organisations_in_five_commands(tmp_path: Path, upstream: str, store: dict[str, str]) -> None:
    lines = commands()
    assert len(lines) == 5
    with company(tmp_path, upstream, store) as proxy:
        out = shell(proxy.data, [*lines, TOKEN], store=store)
        acme, globex = SECRET.findall(out)
        token = out.rpartition("token ")[2].strip()
        sessions, left = [], []
        for key in (acme, globex):
            status, headers, _ = ask(proxy.base, key)
            assert status == 200
            sessions.append(headers["x-guardproxy-session-id"])
            left.append(json.loads(headers["x-guardproxy-budget-remaining"])["cost_usd"])
        assert left[0] > 15 > 5 >= left[1]  # `careful` allows five dollars
        assert ask(proxy.base, "sk-anything")[0] == 401
        listed = [
            shell(proxy.data, [f"guardproxy sessions list --org {org}"], store=store) for org in ("acme", "globex")
        ]
        assert [session in told for session in sessions for told in listed] == [True, False, False, True]
        told = admin(proxy, token, "GET", "/audit")["items"]
        assert [(one["what"], one["actor"], one["kind"]) for one in told[::-1]] == [
            ("token.create", told[-1]["actor"], "command"),
            *[(what, "owner", "token") for what in ("org.create", "org.create", "key.create", "key.create")],
        ]
        assert proxy.stop() == 0
    assert re.search(r'"policy": ?"careful@[0-9a-f]{8}"', proxy.err)


def test_policies_change_while_it_works(tmp_path: Path, upstream: str, store: dict[str, str]) -> None:
    """Through the API, in every worker within two seconds; no request fails, and a bad one changes nothing."""
    with company(tmp_path, upstream, store, "--workers", "3") as proxy:
        out = shell(proxy.data, [*commands(), TOKEN], store=store)
        key, token = SECRET.findall(out)[0], out.rpartition("token ")[2].strip()
        failed: list[Any] = []
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                status, _, body = ask(proxy.base, key, str(time.monotonic_ns()))
                if status != 200:
                    failed.append((status, body))

        threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()

        def limits(seconds: float, wanted: float) -> None:
            """All workers have the limit, within so many seconds: connections are spread over them."""
            time.sleep(seconds)
            found = set()
            for number in range(24):
                headers = ask(proxy.base, key, f"look {number} {time.monotonic_ns()}")[1]
                found.add(json.loads(headers["x-guardproxy-budget-remaining"])["turns"])
            assert found == {wanted - 1}

        one = admin(proxy, token, "GET", "/keys?org=acme")["items"][0]["id"]
        for turns in (50, 60, 70):
            document = {"limits": {"session": {"turns": turns}}}
            admin(proxy, token, "PUT", "/policies/mine", {"document": document})
            admin(proxy, token, "PATCH", f"/keys/{one}", {"policy": "mine"})
            limits(2, turns)
        with pytest.raises(urllib.error.HTTPError) as refused:
            admin(proxy, token, "PUT", "/policies/mine", {"document": {"limits": {"session": {"turns": "many"}}}})
        with refused.value as told:
            assert told.code == 400
        limits(0, 70)
        stop.set()
        for thread in threads:
            thread.join()
        assert failed == []
        assert json.loads(fetch(f"{proxy.admin}/readyz"))["ready"]
        assert proxy.stop() == 0


def test_what_operators_do(tmp_path: Path, upstream: str, store: dict[str, str]) -> None:
    """Each of it at the listener of one parent, and in three workers within two seconds."""
    with company(tmp_path, upstream, store, "--workers", "3") as proxy:
        out = shell(proxy.data, [*commands(), TOKEN], store=store)
        (key, other), token = SECRET.findall(out), out.rpartition("token ")[2].strip()

        def told(method: str, path: str, body: Any = None, who: str = token, status: int = 200) -> Any:
            try:
                return admin(proxy, who, method, path, body)
            except urllib.error.HTTPError as error:
                with error:
                    said = error.code, error.read()
            assert said[0] == status, said
            return None

        def answers(secret: str, status: int, seconds: float = 2.0) -> None:
            """Every worker answers so, within that time: connections are spread over them."""
            began, row = time.monotonic(), 0
            while row < 12:
                row = row + 1 if ask(proxy.base, secret, str(time.monotonic_ns()))[0] == status else 0
                assert row >= 12 or time.monotonic() - began < seconds + 6, f"not {status}"

        answers(key, 200)
        session = ask(proxy.base, key, "a run")[1]["x-guardproxy-session-id"]
        assert told("POST", "/teams?org=acme", {"name": "web"})["name"] == "web"
        made = told("POST", "/keys?org=acme", {"team": "web", "name": "bot"})
        answers(made["secret"], 200)
        limit = {"of": "team:web", "scope": "team", "dimension": "requests", "window": "total", "limit": 1}
        told("PUT", "/budgets?org=acme", limit)
        answers(made["secret"], 400)  # it has had more
        (budget,) = told("GET", "/budgets?org=acme")["items"]
        assert (budget["of"], budget["used"] >= 1, budget["held"]) == ("team:web", True, 0)
        told("PUT", "/panic", {"on": True})
        answers(made["secret"], 200)
        told("PUT", "/panic", {"on": False})
        answers(made["secret"], 400)
        turned = told("POST", f"/keys/{made['id']}/rotate", {"overlap_seconds": 0})
        answers(made["secret"], 401)
        told("DELETE", f"/budgets/{budget['id']}?org=acme")
        answers(turned["secret"], 200)
        told("PATCH", "/teams/web?org=acme", {"enabled": False})
        answers(turned["secret"], 401)
        answers(key, 200)
        told("POST", f"/sessions/{session}/pause?org=acme", {"why": "a look"})
        assert told("GET", f"/sessions/{session}?org=acme")["state"] == "paused"
        told("GET", f"/sessions/{session}?org=globex", status=404)
        until(lambda: sum(one["requests"] for one in told("GET", "/usage?org=acme&by=team")["items"]) >= 50)
        only = told("POST", "/tokens", {"name": "globex's own", "role": "owner", "org": "globex"})
        told("GET", "/keys?org=acme", who=only["secret"], status=403)
        assert len(told("GET", "/keys?org=globex", who=only["secret"])["items"]) == 1
        assert told("GET", "/approvals?org=globex", who=only["secret"])["items"] == []
        assert told("POST", f"/tokens/{only['id']}/revoke", {"why": "left"})
        until(lambda: told("GET", "/keys?org=globex", who=only["secret"], status=401) is None, 5)
        told("POST", "/erase?org=acme", {"session": session})
        told("GET", f"/sessions/{session}?org=acme", status=404)
        told("POST", "/erase?org=acme", {"org": "acme"})
        answers(key, 401)
        answers(other, 200)
        what = {one["what"].partition(".")[0] for one in told("GET", "/audit?limit=100")["items"]}
        assert what >= {"team", "key", "budget", "panic", "session", "token", "erase", "org"}, what
        assert proxy.stop() == 0
