"""The list of surprises in `clients/README.md` is a list of tests: here is which they are.

A line is `file::test`, or the name of a scene: scenes are played on every surface, whole and streamed.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.clients.scenes import SCENES as CLIENTS
from tests.http.test_gateway_cases import SCENES as GATEWAYS
from tests.http.test_interventions import PLOTS
from tests.http.test_scenes import SCENES

ROOT = Path(__file__).parents[1]
LIST = ROOT.parent / "shared" / "clients" / "README.md"

SURPRISES: dict[int, tuple[str, ...]] = {
    1: (  # no single way ends every client
        "B01 text between the calls",
        "a client that demands calls is ended by its finishing tool",
        "structured output: who is sent our text back is given it three times, then the error",
        "structured output: a loop is ended where a text has to fit a schema",
        "structured output: a result that is sent back twice, each time for another reason",
        "http/test_closing.py::test_who_goes_on_after_a_cut_meets_it_and_not_a_run_beside",
    ),
    2: (  # 400 is the safest status, and a denied request costs nothing
        "B58 over budget",
        "http/test_room.py::test_the_status_is_the_policys_and_is_never_worth_a_retry",
        "core/interventions/test_deny.py::test_the_status_is_the_policys",
    ),
    3: ("http/test_heading.py::test_errors", "B58 over budget"),  # x-should-retry; the second denial costs no more
    4: (  # words about the length of a conversation
        "the conversation stays too long",
        "too long three times, then it goes on",
        "too long, in the words of Anthropic: asked again as it was, then shortened",
        "http/test_reactions.py::test_a_refused_length_passes_as_it_is_and_costs_nothing",
        "http/test_reactions.py::test_a_compaction_after_a_refused_length_goes_on_in_its_run",
        "http/test_reactions.py::test_nothing_of_ours_reads_like_a_refused_length",
        "http/test_reactions.py::test_a_run_that_is_ended_may_have_read_of_lengths",
    ),
    5: (  # the message of an error is read by people
        "core/test_advice.py::test_a_summary_says_status_reason_work_findings_and_what_is_open",
        "core/test_advice.py::test_a_budget_summary_names_the_limit",
        "http/test_heading.py::test_a_budget_says_whose_and_how_much_and_a_rate_when_to_come_again",
    ),
    6: (  # without its last call an answer ends with stop
        "api/test_chat_gate.py::test_without_calls_the_finish_reason_is_stop",
        "B36 all calls are taken out on finalize",
        "http/test_relay.py::test_finalize",
    ),
    7: (  # the client's history does not show what we said
        "http/test_closing.py::test_who_goes_on_after_a_cut_meets_it_and_not_a_run_beside",
        "http/test_closing.py::test_who_goes_on_without_the_answer_stays_in_its_run",
        "a client that starts the task again after the cut",
    ),
    8: (  # results in the order in which they finished
        "results in the order of their finishing, each time another: one loop",
        "results in the order of their finishing, with news",
        "core/test_rounds.py::test_pairing",
    ),
    9: (  # user is not a genuine user
        "core/test_harness.py::test_texts_that_programs_write",
        "core/test_harness.py::test_texts_that_people_write",
        "structured output: who is sent our text back is given it three times, then the error",
        "B54 a loop goes on over a reminder of role system",
    ),
    10: (  # system in mid-conversation, developer
        "B54 a reminder of role system",
        "B35 system and developer messages stay",
        "structured output: a text where a result was wanted, then the result",
    ),
    11: (  # volatile results
        "core/test_volatile.py::test_what_differs_each_time_is_a_repeat",
        "B11 a fresh id in each result",
        "accept/test_recordings.py::test_a_recorded_loop_is_nudged_at_the_third_equal_result",
    ),
    12: (  # re-serialised arguments, content beside calls
        "core/test_canon.py::test_calls",
        "accept/test_recordings.py::test_recorded_requests_arrive_as_they_were_sent",
    ),
    13: (  # cache_control wanders, keys change their order
        "http/test_reactions.py::test_a_mark_for_the_cache_that_wanders_moves_no_text",
        "api/test_messages.py::test_pictures_are_told_apart_and_their_mark_for_the_cache_is_not",
        "properties/test_verdicts.py::test_the_order_of_keys_does_not_matter",
    ),
    14: (  # calls in texts
        "core/test_protocol.py::test_calls_and_words",
        "core/test_rounds.py::test_calls_in_texts_are_calls",
        "accept/test_recordings.py::test_a_recorded_loop_is_nudged_at_the_third_equal_result",
    ),
    15: (  # previous_response_id
        "http/test_remembering.py::test_a_loop_is_seen_nudged_and_cut",
        "http/test_remembering.py::test_refused_calls_get_their_outputs",
        "http/test_remembering.py::test_an_answer_of_ours_that_nobody_remembers",
        "accept/test_recordings_responses.py::test_a_run_by_id_alone_is_one_run",
    ),
    16: (
        "api/test_chat.py::test_tool_names",
        "api/test_chat_made.py::test_schema",
    ),  # tools without names
    17: (  # a retry resends the same bytes
        "a failed answer is asked again, on each rung",
        "store/test_turns.py::test_a_retry_keeps_the_turn_and_appends_and_holds_no_turn",
        "store/test_turns.py::test_beside_an_open_attempt_the_second_is_a_retry_and_the_third_a_turn",
    ),
    18: (  # requests without tools
        "http/test_turn.py::test_a_side_request_is_no_turn",
        "http/test_reactions.py::test_a_compaction_after_a_refused_length_goes_on_in_its_run",
    ),
    19: (  # sub-agents
        "http/test_gateway_cases.py::test_36_sub_agents_count_apart_and_pay_together",
        "http/test_gateway_cases.py::test_36_a_sub_agent_that_is_ended_ends_nobody_else",
        "B55 one header, two conversations",
    ),
    20: (  # clients' own stops come at four to six equal calls
        "http/test_guarded.py::test_a_loop_ends_within_three_more_calls_of_the_model_and_none_of_a_tool",
        "accept/test_recordings.py::test_a_recorded_loop_is_nudged_at_the_third_equal_result",
        "deaf",
    ),
    21: (  # a run without a final answer
        "http/test_sweeper.py::test_idle_runs_are_closed",
        "http/test_closing.py::test_closing",
    ),
    22: ("http/test_responses_routes.py::test_a_websocket_is_refused_with_426",),  # Codex tries a WebSocket
    23: (  # what Claude Code asks beside its requests, and its key
        "http/test_app.py::test_signs_of_life",
        "http/test_messages.py::test_bytes_headers_and_query_arrive_as_they_were_sent",
        "http/test_messages.py::test_a_virtual_key_comes_in_the_protocols_header_and_the_providers_goes_out_there",
    ),
    24: (  # streams without stream_options, comments in mid-stream
        "http/test_shape.py::test_the_shape_of_a_conversation_stays",
        "the client asks for usage itself",
        "http/test_reactions.py::test_a_provider_that_is_silent_in_mid_stream_is_waited_for",
        "http/test_reactions.py::test_who_waits_for_another_attempt_is_told_so",
    ),
    25: (  # how long clients wait
        "http/test_reactions.py::test_nobody_is_held_longer_than_clients_wait",
        "http/test_reactions.py::test_who_waits_for_a_person_is_told_so",
        "http/test_approving.py::test_a_client_that_leaves_while_its_call_is_held_finds_it_again",
        "http/test_approving.py::test_when_nobody_decides_in_time_the_notice_is_given",
    ),
}
"""Which tests each is covered by."""

PLAYED = {*CLIENTS, *(scene.case for cases in (SCENES, GATEWAYS, PLOTS) for scene in cases)}


@cache
def cases_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    made = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, made) and node.name.startswith("test_"))


@pytest.mark.parametrize("number", SURPRISES)
def test_what_covers_it_is_there(number: int) -> None:
    for name in SURPRISES[number]:
        file, found, test = name.partition("::")
        assert test in cases_of(file) if found else name in PLAYED, name


@pytest.mark.skipif(not LIST.exists(), reason="the list of ../shared/clients is not here")
def test_every_surprise_of_the_list_is_covered() -> None:
    part = LIST.read_text("utf-8").partition("## Surprises")[2].partition("\n## ")[0]
    numbers = [int(one) for one in re.findall(r"(?m)^(\d+)\. ", part)]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert sorted(SURPRISES) == numbers
