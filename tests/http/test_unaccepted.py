"""The answer that was not handed on: sealed, the newest of a session, and nobody's without the secret."""

from __future__ import annotations

from guardproxy.http.sealed import ANSWER, Sealer
from guardproxy.http.unaccepted import Unaccepted, kept
from guardproxy.store.redis import Store
from tests.live import unique

KEY = b"k" * 32


async def test_the_newest_is_kept_and_opens_for_its_session_alone(store: Store) -> None:
    session, other = unique("run"), unique("run")
    sealer = Sealer(KEY)
    assert await kept(store.checkpoints, sealer, "default", session) is None
    for text in ("first", "second"):
        raw = b'{"text":"%s","wrong":["no test"],"calls":[["finish","{}"]]}' % text.encode()
        await store.checkpoints.put("default", f"{session}\x1fanswer", sealer.seal(ANSWER, session, raw), 60)
        await store.checkpoints.put("default", f"{other}\x1fanswer", sealer.seal(ANSWER, session, raw), 60)
    found = await kept(store.checkpoints, sealer, "default", session)
    assert found is not None
    assert found == Unaccepted(found.at_ms, "second", ("no test",), (("finish", "{}"),))
    assert await kept(store.checkpoints, Sealer(b"x" * 32), "default", session) is None
    assert await kept(store.checkpoints, sealer, "default", other) is None, "it was sealed for another session"
    assert await store.checkpoints.get("default", session) is None, "the session's checkpoint is another one"
