"""The trace model: names, kinds, parents, ids, links, the late root, and that no content is in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Decision, Kind, Line
from guardproxy.telemetry import RunEnd, Telemetry
from guardproxy.telemetry._ids import run_ids, sampled
from guardproxy.telemetry.report import MOST_OBJECTED, Objected, Server
from guardproxy.telemetry.semconv import SPAN_ATTRIBUTES
from tests.telemetry.reports import (
    CALL,
    RESULT,
    SECOND,
    SECRET_TEXT,
    T0,
    cut,
    eventful,
    life,
    nudged,
    refused,
    settings,
    step,
    turn,
    view,
)
from tests.telemetry.sink import attributes, otlp_sink

KEY = b"k" * 32
CALLER = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"


async def sent(reports, *, ends=(), key=KEY, **changes) -> list[Span]:
    """The spans that arrive for reports, in order."""
    with otlp_sink() as sink:
        telemetry = Telemetry(settings(otlp_endpoint=sink.url, **changes), key, "test")
        for report in reports:
            telemetry.report(report)
        for end in ends:
            telemetry.close_run(end)
        await telemetry.shutdown(5)
        assert ("report",) not in telemetry.snapshot().series.get("guardproxy.telemetry.errors", {})
        return sink.spans


def named(spans, name) -> list[Span]:
    return [span for span in spans if span.name == name]


async def test_a_whole_run_is_one_trace():
    spans = await sent(life())

    names = [span.name for span in spans]
    assert names.count("POST /v1/chat/completions") == 7
    assert names.count("chat gpt-4o") == 6
    assert names.count("execute_tool read_file") == 6
    assert names.count("guardproxy.intervene nudge") == 1
    assert names.count("guardproxy.intervene cut") == 1
    assert names[-1] == "invoke_agent codex"
    assert len(spans) == 7 + 6 + 6 + 2 + 1
    assert len({span.trace_id for span in spans}) == 1
    assert len({span.span_id for span in spans}) == len(spans)


async def test_kinds_and_parents():
    spans = await sent(life())
    (root,) = named(spans, "invoke_agent codex")
    turns = {span.span_id for span in named(spans, "POST /v1/chat/completions")}
    expected = {
        "invoke_agent codex": (Span.SPAN_KIND_INTERNAL, {b""}),
        "POST /v1/chat/completions": (Span.SPAN_KIND_SERVER, {root.span_id}),
        "chat gpt-4o": (Span.SPAN_KIND_CLIENT, turns),
        "guardproxy.intervene nudge": (Span.SPAN_KIND_INTERNAL, turns),
        "guardproxy.intervene cut": (Span.SPAN_KIND_INTERNAL, turns),
        "execute_tool read_file": (Span.SPAN_KIND_INTERNAL, {root.span_id}),
    }

    for span in spans:
        kind, parents = expected[span.name]
        assert (span.kind, span.parent_span_id in parents) == (kind, True), span.name
        assert span.end_time_unix_nano >= span.start_time_unix_nano


async def test_ids_are_derived_alike_in_two_processes_and_differ_between_runs():
    one = await sent([turn(1)])
    two = await sent([turn(2)])
    other_key = await sent([turn(1)], key=b"x" * 32)
    other_run = await sent([turn(1, session="s-2", view=view(1, session="s-2"))])

    assert one[0].trace_id == two[0].trace_id == run_ids(KEY, "acme", "s-1", T0 // 10**6)[0].to_bytes(16, "big")
    assert one[0].parent_span_id == named(two, "POST /v1/chat/completions")[0].parent_span_id
    assert len({one[0].trace_id, other_key[0].trace_id, other_run[0].trace_id}) == 3


async def test_the_late_root_sums_the_run_up():
    root = (await sent(life()))[-1]
    found = attributes(root)

    assert root.start_time_unix_nano == T0
    assert root.end_time_unix_nano == cut().ended_ns // 10**6 * 10**6
    assert root.status.code == Status.STATUS_CODE_ERROR
    assert found["error.type"] == "guardproxy.cut"
    assert (found["guardproxy.outcome"], found["guardproxy.rule"]) == ("cut", "repeated_call")
    assert (found["guardproxy.session.turns"], found["guardproxy.session.tool_calls"]) == (7, 6)
    assert found["guardproxy.session.cost_usd"] == pytest.approx(0.009)
    assert not [key for key in found if key.startswith("gen_ai.usage")]  # backends would add them up twice


async def test_no_turn_begins_before_its_root():
    """The store is asked a moment after the request came."""
    early = replace(turn(1), started_ns=T0 - SECOND // 4)
    root = (await sent([early, *life()[1:]]))[-1]

    assert root.start_time_unix_nano == T0 - SECOND // 4


async def test_a_run_that_was_cut_is_closed_once():
    spans = await sent([*life(), cut(8), cut(9)], ends=[RunEnd("acme", "s-1", "abandoned", T0 // 10**6, T0 // 10**6)])

    assert len(named(spans, "invoke_agent codex")) == 1
    assert not named(spans, "invoke_agent")


async def test_an_idle_run_is_closed_by_the_sweeper():
    end = RunEnd("acme", "s-1", "finished", T0 // 10**6, T0 // 10**6 + 5000, agent="codex", turns=3, interventions=2)
    spans = await sent([turn(1, outcome="finished")], ends=[end])

    (root,) = named(spans, "invoke_agent codex")
    assert root.status.code == Status.STATUS_CODE_UNSET
    assert attributes(root)["guardproxy.session.interventions"] == 2
    assert attributes(named(spans, "POST /v1/chat/completions")[0])["guardproxy.outcome"] == "finished"


async def test_tool_spans_last_from_the_call_to_its_result_and_link_to_the_chat():
    spans = await sent([turn(1), turn(2)])
    (tool,) = named(spans, "execute_tool read_file")
    first_chat = named(spans, "chat gpt-4o")[0]
    found = attributes(tool)

    assert tool.start_time_unix_nano == first_chat.end_time_unix_nano
    assert tool.end_time_unix_nano == turn(2).started_ns
    assert [link.span_id for link in tool.links] == [first_chat.span_id]
    assert found["gen_ai.tool.call.id"] == "call_1"
    assert found["guardproxy.tool.timing"] == "proxy_observed"
    assert found["guardproxy.fingerprint.tool_result"] == RESULT.hex()
    assert found["guardproxy.synthetic"] is True


async def test_a_tool_whose_call_another_worker_served_has_no_duration():
    (tool,) = named(await sent([turn(2)]), "execute_tool read_file")

    assert tool.start_time_unix_nano == tool.end_time_unix_nano == turn(2).started_ns
    assert attributes(tool)["guardproxy.tool.timing"] == "unknown"
    assert not tool.links


async def test_the_finding_is_on_the_steps_it_counts():
    tool = named(await sent([turn(3), nudged(4)]), "execute_tool read_file")[-1]

    assert attributes(tool)["guardproxy.tool.repeat_count"] == 3
    assert attributes(tool)["guardproxy.rule"] == "repeated_call"


async def test_a_turn_says_what_spared_it():
    spared = (Spared(Exemption.IMAGES, "repeated_call", 4, (1, 2)), Spared(Exemption.OTHER_WORK, "cycle", 3, ()))
    spans = named(await sent([turn(1), turn(2, decision=Decision("pass", spared=spared))]), "POST /v1/chat/completions")

    assert [attributes(span).get("guardproxy.spared") for span in spans] == [None, SPARED]


SPARED = ["images (repeated_call x4)", "other_work (cycle x3)"]


async def test_only_calls_are_tool_spans():
    spans = await sent([turn(2, steps=(step(kind=Kind.TEXT), step(kind=Kind.BOUNDARY), step("grep")))])

    assert [span.name for span in spans if span.name.startswith("execute_tool")] == ["execute_tool grep"]


async def test_the_trace_of_the_first_request_is_adopted():
    first = turn(1, traceparent=CALLER)
    later = [replace(report, traceparent="00-" + "ef" * 16 + "-" + "01" * 8 + "-01") for report in life()[1:]]
    spans = await sent([first, *later])
    summary = spans[-1]
    turns = named(spans, "POST /v1/chat/completions")

    assert {span.trace_id for span in spans} == {bytes.fromhex("ab" * 16)}
    assert turns[0].parent_span_id == bytes.fromhex("cd" * 8)
    assert summary.name == "guardproxy.session codex"
    assert summary.parent_span_id == bytes.fromhex("cd" * 8)
    assert {span.parent_span_id for span in turns[1:]} == {summary.span_id}
    assert [link.trace_id for link in turns[1].links] == [bytes.fromhex("ef" * 16)]
    assert not [span for span in spans if span.name.startswith(("execute_tool", "invoke_agent"))]


def part(number, *told, turns=range(1, 3)):
    """Turns of the run in a later segment of its trace; `told` is how the store says it."""
    text = ";".join(str(one) for one in ("", number, *told))
    return [turn(n, view=view(n, traceparent=text, new_session=False)) for n in turns]


async def test_what_comes_after_the_root_is_another_trace():
    """The store says so, all workers derive the same ids; its first turn and its root link to the one before."""
    began = view(8).now_ms
    later = part(1, began, 7, "o", turns=(8, 9))
    end = RunEnd("acme", "s-1", "finished", T0 // 10**6, began + 99, segment=1, segment_ms=began)
    spans = await sent([*life(), *later], ends=[end])
    old, new = (run_ids(KEY, "acme", "s-1", T0 // 10**6, number) for number in (0, 1))
    after = [span for span in spans if int.from_bytes(span.trace_id, "big") == new[0]]
    (root,) = [span for span in after if span.name == "invoke_agent"]
    first, second = named(after, "POST /v1/chat/completions")

    assert len(after) < len(spans)
    assert {attributes(span)["guardproxy.session.segment"] for span in after} == {1}
    assert {attributes(span)["guardproxy.session.segment"] for span in spans if span not in after} == {0}
    assert root.start_time_unix_nano == began * 10**6
    for span in (first, root):
        (link,) = span.links
        assert (int.from_bytes(link.trace_id, "big"), int.from_bytes(link.span_id, "big")) == old
        assert attributes(link) == {"guardproxy.link.type": "previous_segment"}
    assert not second.links


async def test_the_turn_that_makes_a_trace_too_long_sends_its_root():
    began = view(3).now_ms
    rotated = part(2, began, 2, "r", 5_000, 9_000, turns=(3, 4))
    spans = await sent(rotated)
    (root,) = named(spans, "invoke_agent codex")
    found = attributes(root)

    assert int.from_bytes(root.span_id, "big") == run_ids(KEY, "acme", "s-1", T0 // 10**6, 1)[1]
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (5_000 * 10**6, 9_000 * 10**6)
    assert (found["guardproxy.session.segment"], found["guardproxy.session.turns"]) == (1, 2)
    assert "guardproxy.outcome" not in found  # the run goes on


async def test_one_decision_on_sampling_holds_for_all_segments():
    born = T0 // 10**6
    for session in [f"s-{n}" for n in range(20)]:
        here = view(1, session=session)
        later = view(2, session=session, traceparent=f";3;{here.now_ms + 10_000};1;o", new_session=False)
        spans = await sent(
            [turn(1, session=session, view=here), turn(2, session=session, view=later)], sample_ratio=0.5
        )
        traced = sampled(run_ids(KEY, "acme", session, born)[0], 0.5)
        assert len({span.trace_id for span in spans}) == (2 if traced else 0)


async def test_in_an_adopted_trace_segments_have_summaries_of_their_own():
    later = view(2, traceparent=f"{CALLER};1;{view(2).now_ms};1;o", new_session=False)
    end = RunEnd("acme", "s-1", "finished", T0 // 10**6, view(2).now_ms, traceparent=CALLER, segment=1)
    spans = await sent([turn(1, traceparent=CALLER), turn(2, view=later)], ends=[replace(end, segment=0), end])

    assert {span.trace_id for span in spans} == {bytes.fromhex("ab" * 16)}
    assert len({span.span_id for span in named(spans, "guardproxy.session")}) == 2


@pytest.mark.parametrize("traceparent", [CALLER, ""])
async def test_a_trace_that_may_not_be_joined_is_linked(traceparent):
    (server,) = named(await sent([turn(1, traceparent=traceparent, adopted=False)]), "POST /v1/chat/completions")

    assert server.trace_id == run_ids(KEY, "acme", "s-1", T0 // 10**6)[0].to_bytes(16, "big")
    assert [link.trace_id for link in server.links] == ([bytes.fromhex("ab" * 16)] if traceparent else [])


async def test_a_key_and_its_team_are_on_every_span():
    for span in await sent([replace(report, key="k1", team="red") for report in life()]):
        found = attributes(span)
        assert (found["guardproxy.key.id"], found["guardproxy.team.id"]) == ("k1", "red")


async def test_calls_that_were_never_answered_are_told_at_the_end():
    end = RunEnd("acme", "s-1", "abandoned", T0 // 10**6, T0 // 10**6 + 5000, abandoned=("ls",))
    (span,) = named(await sent([], ends=[end]), "execute_tool ls")

    assert attributes(span)["guardproxy.tool.outcome"] == "abandoned"
    assert span.start_time_unix_nano == span.end_time_unix_nano == T0 + 5 * SECOND


async def test_another_worker_gave_the_answer_and_the_store_says_when():
    """Also where this worker remembers an older answer with an equal call."""
    (alone,) = named(await sent([turn(2, view=view(2, since_ms=1500))]), "execute_tool read_file")
    tools = named(await sent([turn(1), turn(4, view=view(4, since_ms=1500))]), "execute_tool read_file")

    for span in (alone, *tools):
        assert span.end_time_unix_nano - span.start_time_unix_nano == 1500 * 10**6
        assert attributes(span)["guardproxy.tool.timing"] == "proxy_observed"
        assert not span.links


async def test_the_store_may_say_which_trace_was_adopted():
    spans = await sent([turn(2, view=view(2, traceparent=CALLER))])

    assert {span.trace_id for span in spans} == {bytes.fromhex("ab" * 16)}


async def test_a_trace_that_comes_later_is_only_linked():
    spans = await sent([turn(2, traceparent=CALLER)])
    (server,) = named(spans, "POST /v1/chat/completions")

    assert server.trace_id != bytes.fromhex("ab" * 16)
    assert [(link.trace_id, attributes(link)) for link in server.links] == [
        (bytes.fromhex("ab" * 16), {"guardproxy.link.type": "caller"})
    ]


@pytest.mark.parametrize(
    ("report", "traced"),
    [
        (turn(1, traceparent=CALLER), True),
        (turn(1, traceparent=CALLER[:-1] + "0"), False),  # the caller does not record its own trace
        (turn(1, traceparent="00-" + "0" * 32 + "-" + "cd" * 8 + "-01"), True),  # broken, so not adopted
    ],
    ids=["sampled", "not sampled", "broken"],
)
async def test_the_callers_sampling_decision_holds_in_its_trace(report, traced):
    assert bool(await sent([report])) == traced


async def test_sampling_is_by_run():
    reports = [turn(1, session=f"s-{n}", view=view(1, session=f"s-{n}")) for n in range(60)]
    traced = {attributes(span)["session.id"] for span in await sent(reports, sample_ratio=0.5)}
    expected = {
        report.session for report in reports if sampled(run_ids(KEY, "acme", report.session, T0 // 10**6)[0], 0.5)
    }

    assert traced == expected
    assert 10 < len(traced) < 50
    assert await sent(reports[:5], sample_ratio=0.0) == []


async def test_every_span_names_its_run():
    for span in await sent(life()):
        found = attributes(span)
        assert (found["session.id"], found["guardproxy.session.id"]) == ("s-1", "s-1")
        assert (found["guardproxy.org.id"], found["gen_ai.agent.name"]) == ("acme", "codex")
        assert "gen_ai.conversation.id" not in found  # a derived id may not be one


async def test_a_declared_session_is_a_conversation():
    (first, *_) = await sent([turn(1, declared=True)])

    assert attributes(first)["gen_ai.conversation.id"] == "s-1"


async def test_chat_attributes():
    found = attributes(named(await sent([turn(1)]), "chat gpt-4o")[0])
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "peer.service": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.model": "gpt-4o-2024-08-06",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.request.stream": True,
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 50,
        "gen_ai.usage.cache_read.input_tokens": 400,
        "server.address": "api.openai.com",
        "server.port": 443,
        "guardproxy.upstream.attempt": 1,
    }

    assert {key: found.get(key) for key in expected} == expected
    assert found["gen_ai.response.time_to_first_chunk"] == pytest.approx(0.499)


async def test_a_failed_attempt_has_no_usage():
    good = turn(1).attempts[0]
    bad = replace(good, status=503, error_type="503", calls=(), finish_reason="")
    first, second = named(await sent([turn(1, attempts=(bad, good))]), "chat gpt-4o")

    assert first.status.code == Status.STATUS_CODE_ERROR
    assert "gen_ai.usage.input_tokens" not in attributes(first)
    assert (attributes(first)["guardproxy.upstream.attempt"], attributes(second)["guardproxy.upstream.attempt"]) == (
        1,
        2,
    )


async def test_where_there_are_several_upstreams_an_attempt_says_which():
    first, second = Server("a", "a.example", 443), Server("b", "10.0.0.1", 8080)
    good = replace(turn(1).attempts[0], reason="failover", server=second)
    bad = replace(good, status=503, error_type="503", calls=(), finish_reason="", reason="first", server=first)
    away = replace(bad, status=0, error_type="upstream_unreachable")
    spans = named(await sent([turn(1, attempts=(bad, away, good))]), "chat gpt-4o")
    where = ("guardproxy.upstream.name", "server.address", "server.port", "http.response.status_code")
    told = [tuple(attributes(span).get(key) for key in (*where, "guardproxy.attempt.reason")) for span in spans]

    assert told == [
        ("a", "a.example", 443, 503, "first"),
        ("a", "a.example", 443, None, "first"),
        ("b", "10.0.0.1", 8080, good.status, "failover"),
    ]


async def test_every_attempt_is_a_span_with_its_reason():
    first, second = named(await sent([refused()]), "chat gpt-4o")
    (alone,) = named(await sent([turn(1)]), "chat gpt-4o")
    told = [attributes(span) for span in (alone, first, second)]

    assert [one["guardproxy.attempt.reason"] for one in told] == ["first", "first", "reask"]
    assert [one["guardproxy.upstream.attempt"] for one in told] == [1, 1, 2]
    assert [one["gen_ai.response.id"] for one in told] == ["chatcmpl-1", "chatcmpl-1", "chatcmpl-2"]
    assert [one["gen_ai.usage.input_tokens"] for one in told] == [1000, 1000, 1100]
    assert first.end_time_unix_nano <= second.start_time_unix_nano


async def test_a_call_that_the_agent_did_not_get_is_an_intervention():
    spans = await sent([refused()])
    (server,) = named(spans, "POST /v1/chat/completions")
    (firm,) = named(spans, "guardproxy.intervene firm")
    found = named(spans, "guardproxy.intervene refuse")
    ends = [attempt.ended_ns for attempt in refused().attempts]

    assert {span.parent_span_id for span in [firm, *found]} == {server.span_id}
    assert [(span.start_time_unix_nano, span.end_time_unix_nano) for span in found] == [(end, end) for end in ends]
    base = {
        "guardproxy.action": "refuse",
        "guardproxy.mode": "enforce",
        "guardproxy.rule": "repeated_call",
        "gen_ai.tool.name": "read_file",
        "guardproxy.fingerprint.tool_arguments": CALL.hex(),
    }
    for span, count, attempt in zip(found, (5, 6), (1, 2), strict=True):
        expected = base | {"guardproxy.count": count, "guardproxy.upstream.attempt": attempt}
        assert {key: attributes(span).get(key) for key in expected} == expected


async def test_what_is_not_known_of_a_call_is_left_out():
    spans = await sent([turn(2, objected=(Objected("arguments", "f\ud800", "repair", "observe"),), attempts=())])
    (span,) = named(spans, "guardproxy.intervene repair")

    assert (span.end_time_unix_nano, attributes(span)["guardproxy.mode"]) == (turn(2).ended_ns, "observe")
    assert not {"guardproxy.count", "guardproxy.upstream.attempt"} & attributes(span).keys()


async def test_spans_of_calls_are_bounded():
    objected = (Objected("cycle", "f", "refuse", attempt=99),) * 500

    assert len(named(await sent([refused(objected=objected)]), "guardproxy.intervene refuse")) == MOST_OBJECTED


async def test_a_turn_tells_what_happened_beside_the_decision():
    first, second = named(await sent([eventful(), turn(3)]), "POST /v1/chat/completions")
    expected = {
        "guardproxy.verification": "failed",
        "guardproxy.verification.failed_checks": ["required_tools", "files"],
        "guardproxy.hygiene": ["truncate", "errors (observe)"],
        "guardproxy.approval.id": "ap-1",
        "guardproxy.approval.state": "pending",
        "guardproxy.answer_missing": True,
        "guardproxy.state": "need_human",
    }

    assert {key: attributes(first).get(key) for key in expected} == expected
    assert not expected.keys() & attributes(second).keys()


@pytest.mark.parametrize(("late", "status"), [(("read_file",), "deadline_exceeded"), (("other",), None), ((), None)])
async def test_a_late_result_is_an_error_of_its_tool(late, status):
    (tool,) = named(await sent([turn(1), turn(2, late=late)]), "execute_tool read_file")

    assert tool.status.code == (Status.STATUS_CODE_ERROR if status else Status.STATUS_CODE_UNSET)
    assert (attributes(tool).get("error.type"), attributes(tool).get("guardproxy.tool.late")) == (
        status,
        bool(status) or None,
    )


async def test_a_refused_call_is_no_call_of_the_round():
    """An equal result that comes later is none of the call that the agent never got."""
    spans = await sent([refused(5), turn(6)])
    (tool,) = [span for span in named(spans, "execute_tool read_file") if span.start_time_unix_nano > T0 + 55 * SECOND]

    assert attributes(tool)["guardproxy.tool.timing"] == "unknown"


async def test_observed_interventions_are_spans_too():
    decision = Decision("observe", rule="repeated_call", count=6, mode="observe", would="cut")
    spans = await sent([turn(2, decision=decision)])
    (found,) = named(spans, "guardproxy.intervene cut")

    assert attributes(found)["guardproxy.mode"] == "observe"
    assert attributes(named(spans, "POST /v1/chat/completions")[0])["guardproxy.action"] == "observe"


async def test_a_turn_names_the_labels_that_held_something_back():
    decision = Decision("observe", rule="cycle", count=5, exempted=("1a2b3c4d",))
    first, second = named(await sent([turn(3, decision=decision), nudged()]), "POST /v1/chat/completions")

    assert attributes(first)["guardproxy.exempted"] == ["1a2b3c4d"]
    assert "guardproxy.exempted" not in attributes(second)


async def test_a_denied_turn_names_the_budget():
    line = Line("session", "cost_microusd", 10, limit=100)
    decision = Decision("deny", rule="budget", refused=line)
    (found,) = named(await sent([turn(2, decision=decision, status=400)]), "guardproxy.intervene deny")

    assert attributes(found)["guardproxy.budget.scope"] == "session"
    assert attributes(found)["guardproxy.budget.limit"] == 100


async def test_a_pass_through_request_is_a_lone_server_span():
    lone = turn(1, session="", thread="", surface="passthrough", route="/v1/{rest}", attempts=(), steps=())
    (span,) = await sent([lone])

    assert (span.name, span.parent_span_id) == ("POST /v1/{rest}", b"")
    assert "session.id" not in attributes(span)


async def test_only_known_attributes_and_no_content():
    report = nudged(4)
    report = replace(report, advice=SECRET_TEXT, decision=replace(report.decision, reason=SECRET_TEXT))
    with otlp_sink() as sink:
        telemetry = Telemetry(settings(otlp_endpoint=sink.url), KEY, "test")
        for each in (*life(), report, refused(8), eventful(9)):
            telemetry.report(each)
        await telemetry.shutdown(5)

    assert sink.spans
    assert {key for span in sink.spans for key in attributes(span)} <= SPAN_ATTRIBUTES
    assert not [body for body in sink.bodies if SECRET_TEXT.encode() in body]


async def test_names_from_clients_may_hold_anything():
    wild = "\ud800" + "x" * 5000
    spans = await sent([turn(2, session=wild, agent=wild, model=wild, thread=wild, steps=(step(wild),))])

    assert len(spans) == 3
    assert all(len(span.name) < 300 for span in spans)


async def test_clocks_that_disagree_do_not_turn_a_span_around():
    spans = await sent([turn(1), turn(2, started_ns=T0, ended_ns=T0 + SECOND)])

    assert all(span.end_time_unix_nano >= span.start_time_unix_nano for span in spans)
