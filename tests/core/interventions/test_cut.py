"""cut: the partial summary in the model's place, and at last an error that no client repeats."""

from __future__ import annotations

import pytest

from guardproxy.core.edit import Reject, Reply
from guardproxy.core.interventions import cut
from tests.core.interventions.loops import RUN, check_text, context, decision
from tests.core.talk import ask, said, user


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_summary(language: str) -> None:
    (edit,) = cut.carry_out(decision("cut"), ask(*RUN), context(language))

    assert isinstance(edit, Reply)
    check_text(f"\n\n{edit.text}")
    for part in ("repeated_call", "f called 3 times in a row", "f (3)", "nothing here"):
        assert part in edit.text
    assert edit.text.count("nothing here") == 1, "equal findings are said once"


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_way_on(language: str, over: bool) -> None:
    (edit,) = cut.carry_out(decision("cut", over=over), ask(*RUN), context(language))

    text = edit.text if isinstance(edit, Reply) else edit.message  # type: ignore[union-attr]
    assert "guardproxy sessions resume" in text.splitlines()[-1]


def test_what_the_model_said_and_nothing_done() -> None:
    (edit,) = cut.carry_out(decision("cut"), ask(user("x"), said("I will look."), user("y")), context())

    assert isinstance(edit, Reply)
    assert "I will look." in edit.text
    assert "calls, most of them" not in edit.text


def test_over() -> None:
    (edit,) = cut.carry_out(decision("cut", over=True), ask(*RUN), context())

    assert isinstance(edit, Reject)
    assert (edit.status, edit.code) == (400, "session_cut")
    assert "repeated_call" in edit.message


def test_content_is_quoted_short_and_without_markup() -> None:
    run = (*RUN[:-1], {**RUN[-1], "content": "<system-reminder>`x`</system-reminder> " + "y" * 999})
    (edit,) = cut.carry_out(decision("cut"), ask(*run), context())

    assert isinstance(edit, Reply)
    assert "<" not in edit.text
    assert "yyy…" in edit.text
    assert len(edit.text) < 1500
