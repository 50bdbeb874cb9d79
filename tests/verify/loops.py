"""Scripted agents that loop, finish, wait and fail, through a real proxy with keys, budgets, a webhook and a collector.

What an agent and its model do is said by the first word of the task. One round plays every kind once.
"""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]
FLAKY = "flaky-model"
"""A model that the first of two upstreams fails on."""

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("read_file", "send_mail", "slow_tool", "run_tests")
]
KINDS = (
    "loop",
    "refused",
    "observe",
    "work",
    "deny",
    "mail",
    "late",
    "long",
    "unchecked",
    "forget",
    "flaky",
    "stream",
    "poor",
)
USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 100,
    "total_tokens": 1100,
    "prompt_tokens_details": {"cached_tokens": 400},
    "completion_tokens_details": {"reasoning_tokens": 40},
}


def config(upstreams: list[str], hook: str) -> Json:
    """Everything that has a metric is switched on."""
    return {
        "auth": "keys",
        "upstreams": [{"name": n, "url": u, "api_key": "sk"} for n, u in zip("ab", upstreams, strict=True)],
        "failover": {"failures": 1, "aside_seconds": 1},
        "policy": {
            "profile": "none",
            "hygiene": {"truncate": {"mode": "enforce", "max_tokens": 200}, "deadlines": {"mode": "enforce"}},
        },
        "policies": {
            "trial": {"mode": "observe"},
            "short": {"limits": {"session": {"turns": 2}}},
            "checked": {
                "completion": {"required_tools": {"tools": ["run_tests"]}},
                "final": {"hold": True, "retries": 1},
            },
        },
        "tools": {"approval": ["send_mail"], "deadlines": {"slow_tool": 0.01}},
        "prices": {"default": {"input": 3.0, "output": 15.0}, "unknown": "alert"},
        "webhook": {"url": hook, "secret": "sixteen characters or more"},
        "outgoing": {"private_hosts": ["127.0.0.1"]},
    }


def wishes() -> list[tuple[str, str, Json]]:
    """What an operator asks of the admin API: organisations, budgets, and a key for each kind of agent."""
    keys: list[tuple[str, Json]] = [
        ("acme", {"team": "web", "routes": ["/v1/*"]}),
        *(("acme", {"policy": name}) for name in ("trial", "short", "checked")),
        ("poor", {}),
    ]
    day, team = {"scope": "org", "dimension": "cost_usd", "window": "day"}, {"scope": "team", "dimension": "requests"}
    return [
        *(("POST", "/orgs", {"name": org}) for org in ("acme", "poor")),
        ("POST", "/teams?org=acme", {"name": "web"}),
        ("PUT", "/budgets?org=acme", day | {"limit": 500}),
        ("PUT", "/budgets?org=acme", team | {"window": "month", "limit": 100000}),
        ("PUT", "/budgets?org=poor", day | {"limit": 0.0195}),
        *(("POST", f"/keys?org={org}", wish) for org, wish in keys),
    ]


def granted(admin: str) -> dict[str, str]:
    """Ask for all of them; the secrets of the keys by kind of agent."""
    found = []
    for method, path, wish in wishes():
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{admin}/admin/v1{path}", json.dumps(wish).encode(), headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            found.append(json.load(answer))
    secrets = [one["secret"] for one in found if "secret" in one]
    return dict(zip(("loop", "observe", "deny", "unchecked", "poor"), secrets, strict=True))


def said(messages: list[Json]) -> Json:
    """What the model says next."""
    kind = str(next(one["content"] for one in messages if one["role"] == "user")).split()[0]
    turns = sum(one["role"] == "assistant" for one in messages)
    calls = {
        "loop": ("read_file", {"path": "a"}),
        "refused": ("read_file", {"path": "a"}),
        "poor": ("read_file", {"path": f"p{turns}"}),
        "observe": ("read_file", {"path": "a"}),
        "deny": ("read_file", {"path": f"d{turns}"}),
        "forget": ("read_file", {"path": f"f{turns}"}),
        "mail": ("send_mail", {"to": "x"}),
    }
    if kind in ("work", "flaky", "late", "long") and turns < 2:
        calls[kind] = ("slow_tool" if kind == "late" else "read_file", {"path": f"w{turns}"})
    if kind not in calls:
        return {"role": "assistant", "content": "It is done."}
    name, arguments = calls[kind]
    call = {"name": name, "arguments": json.dumps(arguments)}
    made = {"id": f"call_{time.monotonic_ns():x}", "type": "function", "function": call}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A worker that was killed resets its connections."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """An HTTP server in a thread; its address."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class _Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Silence."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def answer(self, status: int, body: bytes = b"{}", kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def provider(*, fails: bool) -> type[BaseHTTPRequestHandler]:
    """A model. `fails`: not for `FLAKY`."""

    class Model(_Quiet):
        def do_GET(self) -> None:
            self.answer(200, b'{"object":"list","data":[]}')

        def do_POST(self) -> None:
            asked = json.loads(self.body())
            if fails and asked["model"] == FLAKY:
                self.answer(503, b'{"error":{"message":"later"}}')
                return
            message = said(asked["messages"])
            base = {"id": "c1", "created": 1, "model": f"{asked['model']}-1"}
            if asked.get("stream"):
                chunks = [
                    {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                    {"choices": [], "usage": USAGE},
                ]
                events = [json.dumps(base | {"object": "chat.completion.chunk"} | one) for one in chunks]
                self.answer(
                    200, "".join(f"data: {one}\n\n" for one in [*events, "[DONE]"]).encode(), "text/event-stream"
                )
                return
            finish = "tool_calls" if message.get("tool_calls") else "stop"
            choice = {"index": 0, "message": message, "finish_reason": finish}
            whole = base | {"object": "chat.completion", "choices": [choice], "usage": USAGE}
            self.answer(200, json.dumps(whole).encode())

    return Model


@dataclass
class Hook:
    """Who is told: by guardproxy's webhook, and by Alertmanager at /page."""

    events: list[Json] = field(default_factory=list)
    pages: list[Json] = field(default_factory=list)

    def handler(self) -> type[BaseHTTPRequestHandler]:
        hook = self

        class Told(_Quiet):
            def do_POST(self) -> None:
                told = json.loads(self.body())
                (hook.pages if self.path == "/page" else hook.events).append(told)
                self.answer(200)

        return Told


@dataclass
class Agents(threading.Thread):
    """Plays rounds until `done`. `ended`: with which status a run was ended."""

    base: str
    keys: dict[str, str]
    done: threading.Event = field(default_factory=threading.Event)
    rounds: int = 0
    conversations: dict[str, list[Json]] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        while not self.done.is_set():
            self.rounds += 1
            for kind in KINDS:
                try:
                    self.play(kind, f"{kind}-{self.rounds}")
                except OSError as error:
                    self.wrong.append(f"{kind}: {error}")
            self._strangers()

    def _strangers(self) -> None:
        """A key that is none, a route that is not read, and what is no HTTP."""
        self.post([{"role": "user", "content": "x"}], key="gp-no", session="x", agent="x")
        request = urllib.request.Request(
            f"{self.base}/models", headers={"Authorization": f"Bearer {self.keys['loop']}"}
        )
        with suppress(OSError), urllib.request.urlopen(request, timeout=10) as got:
            got.read()
        where = urlsplit(self.base)
        with suppress(OSError), socket.create_connection((where.hostname, where.port), timeout=2) as raw:
            raw.sendall(b"\x16\x03\x01 this is no request\r\n\r\n")
            raw.recv(100)

    def play(self, kind: str, session: str) -> None:
        """One run, to its end or for ten turns."""
        key, agent = self.keys.get(kind, self.keys["loop"]), {"loop": "looper"}.get(kind, f"{kind}-agent")
        messages: list[Json] = [{"role": "user", "content": f"{kind} {session}"}]
        self.conversations[session] = messages
        for turn in range(10):
            status, answer = self.post(messages, key=key, session=session, agent=agent, kind=kind)
            if status != 200 or kind == "stream":
                self.ended[session] = status
                return
            message = answer["choices"][0]["message"]
            if kind == "forget" and turn:
                messages.append({"role": "user", "content": f"and now? {turn}"})
                if turn > 2:
                    return
                continue
            messages.append(message)
            if not message.get("tool_calls"):
                if kind != "loop":
                    return
                continue  # it does not hear that it is over, and asks again
            if kind == "late":
                time.sleep(0.03)
            text = "Error: no such file" if kind in ("loop", "refused", "observe") else f"r{turn}"
            text = "line\n" * 2000 if kind == "long" else text
            messages += [{"role": "tool", "tool_call_id": c["id"], "content": text} for c in message["tool_calls"]]

    def post(self, messages: list[Json], *, key: str, session: str, agent: str, kind: str = "") -> tuple[int, Json]:
        """A request; its status and answer."""
        model = FLAKY if kind == "flaky" else "some-model"
        body: Json = {"model": model, "messages": messages, "tools": TOOLS, "stream": kind == "stream"}
        body |= {"max_tokens": 100} if kind == "poor" else {}
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {key}",
            "x-guardproxy-session-id": session,
            "x-guardproxy-agent": agent,
        }
        request = urllib.request.Request(f"{self.base}/chat/completions", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as got:
                raw = got.read()
                return got.status, {} if kind == "stream" else json.loads(raw)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"{}")
