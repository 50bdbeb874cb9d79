"""What changes by itself is taken out of results, and nothing else."""

from __future__ import annotations

import pytest

from guardproxy.core.mask import (
    EDGE,
    HUGE,
    KEPT,
    WHOLE,
    ends_of_huge,
    mask,
    result_text,
    settled,
    shortened,
    without_digits,
)
from guardproxy.core.model import Flag
from tests.core.steps import step


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("done at 2026-01-31T10:00:00.123Z", "done at 2026-02-01T11:30:59Z"),
        ("10:00:00 ok", "23:59:01 ok"),
        ("3 passed in 0.12s", "3 passed in 12.50s"),
        ('{"done": 3, "at": "10:00:00"}', '{"done": 3, "at": "10:00:01"}'),
        ('{"state": "up", "at": "10:00:00"}', '{"state": "up", "at": "10:00:01"}'),
        ("took 12 ms", "took 9 ms"),
        ("body\n(took 292ms)", "body\n(took 31ms)"),
        ("body\nreal 1.234s", "body\nreal 0.020s"),
        ("body\n\nreal\t0m1.234s\nuser\t0m0.003s", "body\n\nreal\t0m0.999s\nuser\t0m0.103s"),
        ("took 3.5 µs", "took 12 µs"),
        (f"{'a' * 400}--- FAIL: x (0.04s)\n{'b' * 400}", f"{'a' * 400}--- FAIL: x (0.11s)\n{'b' * 400}"),
        (f"{'a' * 400}renders (12 ms)\n{'b' * 400}", f"{'a' * 400}renders (9 ms)\n{'b' * 400}"),
        ("[12:03:44] ok", "[12:03:59] ok"),
        ("2026-01-31 10:00:00,123 INFO up", "2026-02-01 11:00:00,001 INFO up"),
        ("pid=4711 up", "pid=12 up"),
        ("Process Group PGID: 17738", "Process Group PGID: 99"),
        ("read tcp 10.0.0.1:54321->10.0.0.2:443: timeout", "read tcp 10.0.0.1:41002->10.0.0.2:443: timeout"),
        ('{"a":1,"took_ms":541}', '{"a":1,"took_ms":9}'),
        ('{"a":1,"elapsedMs":541}', '{"a":1,"elapsedMs":9}'),
        ('{"a":1,"elapsed_seconds":5.41}', '{"a":1,"elapsed_seconds":9}'),
        ('{"a":1,"duration_seconds":5.41}', '{"a":1,"duration_seconds":9}'),
        ('{"a":1,"response_time":5.41}', '{"a":1,"response_time":9}'),
        ('{"a":1,"pid":541}', '{"a":1,"pid":9}'),
        ("Wall time: 0.3 seconds\nhi", "Wall time: 1.25 seconds\nhi"),
        ("Chunk ID: 5f3a2b\nhi", "Chunk ID: 77aa01\nhi"),
        ("at 0x7f3a2b1c", "at 0x55d0c0de"),
        ("Foo@1f2e3d4c", "Foo@99aabbcc"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-42d3-a456-426614174fff"),
        ("wrote /tmp/tmpab12cd/x", "wrote /tmp/tmpzz99/x"),
        ("body\n(40 lines, read 2 times)", "body\n(40 lines, read 3 times)"),
        ('{"ok":true,"messageId":"m1","ts":1}', '{"ts":2,"messageId":"m9","ok":true}'),
        ('{"a":{"created_at":"x","v":1}}', '{"a":{"v":1,"created_at":"y"}}'),
        ("\x1b[31mred\x1b[0m", "red"),
        ("x\n", "x"),
        ("body\nviewed 12 times", "body\nviewed 13 times"),
        ("body\n[call #7]", "body\n[call #8]"),
        ("body\nThis is the 2nd time.", "body\nThis is the 3rd time."),
        ("body\n4990 requests remaining", "body\n4989 requests remaining"),
        ('{"rows":[1],"calls_remaining":7}', '{"rows":[1],"calls_remaining":6}'),
        ("正文\n(已读取 2 次)", "正文\n(已读取 3 次)"),
        ("正文\n第２次读取", "正文\n第３次读取"),
        ("完成,耗时 0.3 秒", "完成,耗时 1.25 秒"),
        ("时间 １０：００：００ 正常", "时间 １１：３０：００ 正常"),
        ("処理時間 3ミリ秒", "処理時間 12ミリ秒"),
        ("cafe\u0301 has been opened", "caf\u00e9 has been opened"),
        ("ze\u200bro width\ufeff", "zero width"),
    ],
)
def test_results_that_differ_only_in_what_changes_by_itself(one: str, other: str) -> None:
    assert step("f", "{}", one).result == step("f", "{}", other).result


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3 failed", "2 failed"),
        # nothing but what changes: that is the answer
        ("2026-01-31T10:00:00Z", "2026-01-31T10:00:01Z"),
        ("10:00:00\n", "10:00:01\n"),
        ("123e4567-e89b-12d3-a456-426614174000", "00000000-e89b-42d3-a456-426614174fff"),
        ('"123e4567-e89b-12d3-a456-426614174000"', '"00000000-e89b-42d3-a456-426614174fff"'),
        ("0x7f3a2b1c", "0x55d0c0de"),
        ("5f3a2b77c1d09e44", "77aa01b2c3d4e5f6"),
        ("1769853600", "1769853601"),
        ("12 s", "13 s"),
        ('{"time": "10:00:00"}', '{"time": "10:00:01"}'),
        ('{"uuid": "123e4567-e89b-12d3-a456-426614174000"}', '{"uuid": "00000000-e89b-42d3-a456-426614174fff"}'),
        ("step 3/9", "step 4/9"),
        ("50 %", "51 %"),
        ("listening on port 8080", "listening on port 8081"),
        (f"{'a' * 400}in (4 items){'b' * 400}", f"{'a' * 400}in (5 items){'b' * 400}"),
        ("10.0.0.1:54321->10.0.0.2:443", "10.0.0.1:54321->10.0.0.2:444"),
        ('{"a":1,"took_place":541}', '{"a":1,"took_place":9}'),
        ("line 12: x", "line 13: x"),
        ("user id: 12 is blocked", "user id: 13 is blocked"),
        ('{"id":"a"}', '{"id":"b"}'),
        ("{not json ts", "{not json at"),
        ("a" * 70_000 + "x" + "a" * 70_000, "a" * 70_000 + "y" + "a" * 70_000),
        ("a" * 70_000, "a" * 70_001),
        ("3 of the calls are remaining", "2 of the calls are remaining"),
        ("3 items remaining", "2 items remaining"),
        ("issue #7 is open", "issue #8 is open"),
        ("还剩 3 个任务", "还剩 2 个任务"),
        ("进度 50 %,共 3 步", "进度 60 %,共 3 步"),
        ("\0\x01\xff", "\0\x01\xfe"),
    ],
)
def test_results_that_differ(one: str, other: str) -> None:
    assert step("f", "{}", one).result != step("f", "{}", other).result


def test_of_a_long_text_the_ends_are_masked_and_the_middle_is_kept() -> None:
    text = f"took 5 ms {'a' * EDGE}10:00:00{'b' * EDGE} took 5 ms"
    assert mask(text) == f"took ~ {'a' * EDGE}10:00:00{'b' * EDGE} took ~"


def test_of_a_very_long_text_a_hash_stands_for_the_middle() -> None:
    assert len(mask("x" * (WHOLE + 1))) < 2 * EDGE + 64


def test_volatile_keys_are_dropped_at_any_depth() -> None:
    assert settled([{"ts": 1, "a": {"Timestamp": 2, "b": [3]}}]) == [{"a": {"b": [3]}}]
    assert result_text('{"a":1,"request_id":"x"}') == '{"a":1}'


def test_an_answer_that_is_nothing_but_volatile_is_not_empty() -> None:
    assert result_text('{"pid": 12}') == result_text('{"pid": 4711}') == '{"pid":"~"}'
    assert not step("start", "{}", '{"pid": 12}').flags & Flag.VOID


def test_digits_are_dropped() -> None:
    assert without_digits("grep -B10 é2") == "grep -B é".encode()


@pytest.mark.parametrize(("tool", "same"), [("create_ticket", True), ("generate_uuid", False), ("get_uuid", False)])
@pytest.mark.parametrize("form", ["{0}", '{{"id": "{0}"}}'])
def test_the_receipt_of_a_change_is_no_answer(tool: str, form: str, *, same: bool) -> None:
    ids = ("123e4567-e89b-12d3-a456-426614174000", "00000000-e89b-42d3-a456-426614174fff")
    one, other = (step(tool, "{}", form.format(made)).result for made in ids)
    assert (one == other) is same


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("x" * HUGE + "y", True),
        ("字" * (2 * HUGE), True),
        ("x" * HUGE, False),
        ("", False),
        ("x" * KEPT + "…1234567…01234567…" + "y" * KEPT, True),  # as if it were one: it is no other
        ("x" * KEPT + "…12…01234567…" + "y" * KEPT, False),
        ("x" * KEPT + "…1234567…0123456…" + "y" * KEPT, False),
        ("x" * KEPT + "…1234567…0123456g…" + "y" * KEPT, False),
        ("x" * (2 * KEPT + 20), False),
    ],
)
def test_a_huge_text_is_known_by_its_ends(text: str, known: bool) -> None:
    found = ends_of_huge(shortened(text))

    assert (found is not None) is known
    if found is not None and len(text) > HUGE:
        assert found == (text[:KEPT], len(text), text[-KEPT:])
