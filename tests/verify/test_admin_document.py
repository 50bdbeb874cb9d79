"""schemathesis against the admin API of a real proxy, by the API's own document: no 5xx, no schema violation.

`make verify` installs it beside, in an environment of its own: it pins other versions than we use.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from guardproxy import secrets
from guardproxy.config import build
from guardproxy.http import reach
from guardproxy.http.auditing import Actor
from guardproxy.http.sealed import CHECKPOINT, Held, Sealer
from guardproxy.http.tokens import Keyring
from guardproxy.store.approvals import Approval
from guardproxy.store.policies import Kept
from guardproxy.store.redis import Store
from guardproxy.store.registry import Key, Org, Secret, Team
from tests.running import Running, fetch, provider

ROOT = Path(__file__).parents[2]
HELD = {
    "a": Held("delete_file", '{"path":"/data/a.csv"}', b'{"role":"assistant"}'),
    "q": Held("ask_human", "{}", b"{}", question="Which?"),
}
EACH = 60
"""Approvals of each kind: a decided one answers 409 from then on, so that there are some for every example."""

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]


def program() -> str:
    own = ROOT / ".venv-schemathesis" / "bin" / "schemathesis"
    found = str(own) if own.exists() else shutil.which("schemathesis")
    if not found:
        pytest.skip("schemathesis is not here; make verify installs it")
    return found


def filled(proxy: Running) -> tuple[str, str]:
    """Runs, approvals and a checkpoint in the proxy's store; an owner's token, and another token's id."""
    config = build({"store": {"data_dir": str(proxy.data)}})
    keys = secrets.derive(secrets.find({}, proxy.data, shared_store=False))
    sealer = Sealer(keys.ledger)

    async def work(store: Store) -> tuple[str, str]:
        now = round(time.time() * 1000)
        for number in range(EACH):
            for letter, held in HELD.items():
                name = f"{letter}{number}"
                sealed = sealer.seal_held(name, held)
                one = Approval(name, "default", "run-1", "main", held.tool, now, now + 3_600_000, sealed)
                await store.approvals.open("default", one)
        kept = sealer.seal(CHECKPOINT, "run-1", b'[{"role":"user","content":"hi"}]')
        await store.checkpoints.put("default", "run-1", kept, 3600)
        ring = Keyring(store, keys.key_hash)
        made, secret = await ring.create("fuzz", "owner", Actor("a test"))
        await ring.create("another", "owner", Actor("a test"))
        for one in (Org("default"), Team("default", "web"), Key("k00000000000a", secrets=(Secret("d" * 64, "gp-…"),))):
            await store.registry.put(one)
        await store.policies.put(Kept("careful", {"mode": "observe"}))
        return secret, made.id

    return reach.ask(config, work)


PARAMETERS = """\
[parameters]
"path.id" = "run-1"
"query.org" = "default"
[[operations]]
include-path-regex = "/approvals/"
parameters = { "path.id" = "a1" }
[[operations]]
include-path-regex = "/answer"
parameters = { "path.id" = "q1" }
[[operations]]
include-path-regex = "/keys/"
parameters = { "path.id" = "k00000000000a" }
[[operations]]
include-path-regex = "/policies/"
parameters = { "path.id" = "careful" }
[[operations]]
include-path-regex = "/teams/"
parameters = { "path.id" = "web" }
[[operations]]
include-path-regex = "/orgs/"
parameters = { "path.id" = "default" }
[[operations]]
include-path-regex = "/tokens/"
parameters = { "path.id" = "TOKEN" }
"""
RUNS = {"as it comes": "", "what is there": PARAMETERS}


@pytest.mark.parametrize("which", RUNS)
def test_the_document_is_kept(which: str, tmp_path: Path) -> None:
    tool = program()
    with provider() as upstream, Running(tmp_path, "--upstream", upstream) as proxy:
        for number in range(3):
            body = {"model": "0", "messages": [{"role": "user", "content": "hi"}]}
            fetch(f"{proxy.base.removesuffix('/v1')}/s/run-{number}/v1/chat/completions", body)
        token, other = filled(proxy)
        settings = tmp_path / "schemathesis.toml"
        settings.write_text(RUNS[which].replace("TOKEN", other))
        command = [tool, "--config-file", str(settings), "run", f"{proxy.admin}/admin/v1/openapi.json"]
        command += ["-H", f"Authorization: Bearer {token}", "--phases", "examples,coverage,fuzzing"]
        # What the document cannot say (printable text, at least one limit) is refused with 400, as it should be.
        command += ["--max-examples", "20", "--exclude-checks", "positive_data_acceptance", "--no-color"]
        plain = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=280, check=False, env=plain, cwd=tmp_path
        )
        log = proxy.err

    assert done.returncode == 0, done.stdout[-4000:]
    assert " 5 selected / " not in done.stdout
    assert not re.search(r"\b0 selected", done.stdout)
    assert "Traceback" not in log
