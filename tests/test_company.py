"""A company with two organisations in five commands, as the README has them; policies that change while it works."""

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

from tests.running import Running, fetch, provider

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.verify  # a dozen processes each
SECRET = re.compile(r"gp-[0-9A-Za-z]{42}")


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with provider() as url:
        yield url


def commands() -> list[str]:
    """The block of the README."""
    text = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"--auth keys`:\n\n```\n(.*?)```", text, re.DOTALL)
    found: list[str] = block.strip().split("\n")
    return found


def company(folder: Path, upstream: str, *more: str) -> Running:
    """`guardproxy serve` on the example, with keys; it shares its port, store and log with nobody."""
    env = {"XDG_DATA_HOME": str(folder / "home"), "OPENAI_BASE_URL": upstream, "GUARDPROXY_UPSTREAM_KEY": "sk-provider"}
    example = str(ROOT / "deploy" / "guardproxy.example.yaml")
    return Running(folder, "--config", example, "--auth", "keys", "--host", "127.0.0.1", *more, env=env)


def shell(data: Path, lines: list[str], token: str = "") -> str:
    """Run the lines as they are typed; what they print."""
    words = f'guardproxy() {{ "{sys.executable}" -m guardproxy "$@" --data-dir "{data}"; }}\nset -e\n'
    plain = {name: text for name, text in os.environ.items() if not name.startswith("GUARDPROXY_")}
    plain |= {"PYTHONPATH": str(ROOT)} | ({"GUARDPROXY_ADMIN_TOKEN": token} if token else {})
    done = subprocess.run(
        ["/bin/sh", "-c", words + "\n".join(lines)],
        capture_output=True,
        text=True,
        check=False,
        env=plain,
        timeout=60,
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


def test_two_organisations_in_five_commands(tmp_path: Path, upstream: str) -> None:
    lines = commands()
    assert len(lines) == 5
    with company(tmp_path, upstream) as proxy:
        out = shell(proxy.data, [*lines, 'printf "token %s\\n" "$GUARDPROXY_ADMIN_TOKEN"'])
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
        listed = [shell(proxy.data, [f"guardproxy sessions list --org {org}"]) for org in ("acme", "globex")]
        assert [session in told for session in sessions for told in listed] == [True, False, False, True]
        told = admin(proxy, token, "GET", "/audit")["items"]
        assert [(one["what"], one["actor"], one["kind"]) for one in told[::-1]] == [
            ("token.create", told[-1]["actor"], "command"),
            *[(what, "owner", "token") for what in ("org.create", "org.create", "key.create", "key.create")],
        ]
        assert proxy.stop() == 0
    assert re.search(r'"policy": ?"careful@[0-9a-f]{8}"', proxy.err)


def test_policies_change_while_it_works(tmp_path: Path, upstream: str) -> None:
    """Through the API, in every worker within two seconds; no request fails, and a bad one changes nothing."""
    with company(tmp_path, upstream, "--workers", "3") as proxy:
        out = shell(proxy.data, [*commands(), 'printf "token %s\\n" "$GUARDPROXY_ADMIN_TOKEN"'])
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
