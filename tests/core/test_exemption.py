"""The names of the exemptions: a closed set that logs and spans can hold."""

from __future__ import annotations

import json
import re

import pytest

from guardproxy.core.exemption import Exemption, Spared


@pytest.mark.parametrize("one", Exemption)
def test_a_name_is_a_label_and_has_its_sentence(one: Exemption) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", one)
    assert one == one.name.lower()
    assert one.meaning.endswith(".")
    assert "|" not in one.meaning  # it stands in tables
    assert Exemption(str(one)) is one


def test_no_two_say_the_same() -> None:
    assert len({one.meaning for one in Exemption}) == len(Exemption) == len(set(map(str, Exemption)))


def test_it_can_be_written() -> None:
    spared = Spared(Exemption.OTHER_WORK, "interleaved_repeat", 4, (0, 1, 12, 13))
    assert str(spared) == "other_work (interleaved_repeat x4)"
    assert json.loads(json.dumps(spared)) == ["other_work", "interleaved_repeat", 4, [0, 1, 12, 13]]
