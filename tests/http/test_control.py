"""The line between parent and worker."""

from __future__ import annotations

import asyncio
import socket

from guardproxy.http.control import Channel


async def pair() -> tuple[Channel, Channel]:
    ours, theirs = socket.socketpair()
    return await Channel.over(ours), await Channel.over(theirs)


async def test_messages_arrive_whole_and_in_order() -> None:
    ours, theirs = await pair()
    large = "x" * 3_000_000
    sending = asyncio.gather(ours.send("start", text="a\nb", large=large), ours.send("drain"))
    first, second = await theirs.receive(), await theirs.receive()
    await sending
    ours.close()

    assert first == {"do": "start", "text": "a\nb", "large": large}
    assert second == {"do": "drain"}
    assert await theirs.receive() is None
    theirs.close()


async def test_half_a_message_is_the_end() -> None:
    ours, theirs = socket.socketpair()
    channel = await Channel.over(theirs)
    ours.sendall(b'{"do":"dra')
    ours.close()

    assert await channel.receive() is None
    channel.close()


async def test_sending_to_nobody_is_quiet() -> None:
    ours, theirs = await pair()
    theirs.close()
    for _ in range(5):
        await ours.send("snapshot", snapshot="x" * 100_000)
        await asyncio.sleep(0)

    assert await ours.receive() is None
    ours.close()
