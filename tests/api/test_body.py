"""What is read of a body beside its messages: the keys, and the messages as they stand."""

from __future__ import annotations

import msgspec
import pytest

from guardproxy.api._body import READ, decode, decode_list


def test_messages_are_left_as_they_are_and_other_keys_are_passed_over() -> None:
    found = decode(b'{"n": 2, "messages": [ {"a" : 1}, {} ], "nobody": {"deep": [1]}, "model": "m"}')

    assert [bytes(one) for one in found.messages] == [b'{"a" : 1}', b"{}"]
    assert {name: value for name in READ if (value := getattr(found, name)) is not msgspec.UNSET} == {
        "n": 2,
        "model": "m",
    }
    assert "messages" not in READ


@pytest.mark.parametrize("text", [b"{}", b'{"messages": {}}', b'{"messages": [', b"[]"])
def test_what_has_no_messages_is_no_body(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(text)


def test_a_part_of_the_messages_is_a_list() -> None:
    assert [bytes(one) for one in decode_list(b'[1, {"b": null}]')] == [b"1", b'{"b": null}']
