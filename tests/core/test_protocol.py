"""When an assistant's text is an agent's call: by what answers it, or by what the head asks for. People are others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guardproxy.core import protocol
from guardproxy.core.model import Ask
from tests.core.talk import ask, said, system, user

FENCE = "I run it.\n```bash\nls\n```"
REACT = "Thought: x\nAction: Search[oil]"
JSON = '{"action": "s", "action_input": {"q": 1}}'
CREW = "Thought: x\nAction: s\nAction Input: oil\nObservation: none"
REPR = "Calling tools:\n[{'id': 'c1', 'type': 'function', 'function': {'name': 'read', 'arguments': {'path': 'a'}}}]"
EDIT = "a.py\n```\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n```"
MISFIT = "# 1 SEARCH/REPLACE block failed to match!\n\n## it is not in a.py"
CODE = "<returncode>0</returncode>\n<output>\na\n</output>"
EXIT = "exitcode: 0 (execution succeeded)\nCode output: 1"
READ = "[read_file for 'a'] Result:\nx"
RAN = "I ran this command:\n\nls\n\nAnd got this output:\n\na"
RETRY = "Error:\nno f\nNow let's retry: …"
TWO = "Please always provide EXACTLY ONE action in triple backticks, found 2 actions."
ADDED = "I have *added these files to the chat*"
NO_SQL = "No SQL code was found in your last response."
TAGS = "<read_file>\n<path>a</path>\n</read_file>"

HEADS: dict[str, tuple[str, str]] = {
    "mini-swe-agent": (
        "You can interact with a computer shell. Answer with exactly ONE bash code block with ONE command.",
        "fence",
    ),
    "SWE-agent": (
        "You're working directly in the command line. Always give one discussion and _one_ command field.",
        "fence",
    ),
    "InterCode": (
        "Your response should be a SQL command. Given your command the system will then give back output formatted so.",
        "fence",
    ),
    "code blobs": ("Solve any task using code blobs; print what is then given as Observation.", "fence"),
    "ReAct": ("Use Thought:, Action: and Action Input:. Observation: is the result of the action.", "react"),
    "examples of ReAct": ("Thought 1: I look\nAction 1: Search[x]\nObservation 1: x is y\nThought 2: so", "react"),
    "JSON": ('Answer with {"action": …, "action_input": …}. You will then receive the output of the tool.', "json"),
    "a coding assistant": ("You are a coding assistant. Write code in fenced blocks and explain what it does.", ""),
    "an assistant with one block": ("You help with the shell. Give one command in a code block at a time.", ""),
    "an assistant that explains": ("Explain the results of the code that the user shows you. Be brief.", ""),
    "a classifier": ('Classify the request. Answer with JSON: {"action": name, "parameters": {}}.', ""),
    "a home": ('You turn devices on and off. Answer with JSON {"tool": device, "args": {}} to what the user says.', ""),
    "a tutor": (
        "You are an interactive tutor for the shell. Give exactly one command; the user tells you the results.",
        "",
    ),
    "a caller of tools": ('Choose a tool and return the result as JSON: {"tool": name, "args": {}}.', ""),
    "notes": ('Make observations about the meeting, and one line "Action:" for each result.', ""),
    "nothing": ("", ""),
}


def bare(*messages: dict) -> Ask:
    """Without tools."""
    return replace(ask(*messages), tools=())


@pytest.mark.parametrize("name", HEADS)
def test_what_a_head_asks_for(name: str) -> None:
    text, form = HEADS[name]
    forms = protocol.declared(bare(system(text), user("Do it.")))
    assert (form in forms) if form else forms == {"markup"}


@pytest.mark.parametrize("name", HEADS)
def test_a_request_with_tools_has_its_own_words(name: str) -> None:
    assert not protocol.declared(ask(system(HEADS[name][0]), user("Do it.")))


PLAIN = "nothing"
TOLD: dict[str, tuple[str, str, list[str], list[str | None] | None, str | None]] = {
    # head, text, user texts, results (None: words), what a person said after them
    "a label": (PLAIN, REACT, ["Observation: none"], ["none"], None),
    "a numbered label": (PLAIN, REACT, ["Observation 3: none"], ["none"], None),
    "a fence and a label": (PLAIN, FENCE, ["Observation:\na b"], ["a b"], None),
    "a return code": (PLAIN, FENCE, [CODE], [CODE], None),
    "an execution": (PLAIN, FENCE, [EXIT], [EXIT], None),
    "a tool's name": (PLAIN, TAGS, [READ + "\n<environment_details>\n10:31"], [READ], None),
    "a command that was run for aider": (PLAIN, FENCE, [RAN], [RAN], None),
    "an error of a code blob": (PLAIN, "<code>\nf()\n</code>", [RETRY], [RETRY], None),
    "a transcript": (PLAIN, REPR, ["Observation:\nhello"], ["hello"], None),
    "a transcript without an answer": (PLAIN, REPR, [], [None], None),
    "an example of a trace for a person": (PLAIN, CREW, ["Nice. And what is ReAct?"], None, None),
    "a trace that was made up to its end": (PLAIN, CREW + "\nFinal Answer: 42", [], None, None),
    "a result in the text": (PLAIN, CREW, [], ["none"], None),
    "a raw result where the head says so": ("mini-swe-agent", FENCE, ["a b"], ["a b"], None),
    "raw JSON where the head says so": ("JSON", JSON, ['{"x": 1}'], ['{"x": 1}'], None),
    "no result yet": ("mini-swe-agent", FENCE, [], [None], None),
    "a form that the head does not ask for": ("mini-swe-agent", JSON, ["a b"], None, None),
    "a rejection": ("mini-swe-agent", FENCE, [TWO], None, None),
    "a rejection of no code": ("InterCode", "```sql\nselect\n```", [NO_SQL], None, None),
    "a person's words": (PLAIN, FENCE, ["It says: no such file"], None, None),
    "a person's error": (PLAIN, FENCE, ["Error: cannot find module 'x'"], None, None),
    "a person's output": (PLAIN, FENCE, ["$ ls\na b\n$"], None, None),
    "a person's trace": (PLAIN, FENCE, ["Traceback (most recent call last):\n  File x\nKeyError: 'a'"], None, None),
    "a person at a switch": ("a home", '{"tool": "lamp", "args": {"on": true}}', ["now turn it off"], None, None),
    "an answer and a new question": ("ReAct", "Action: Finish[42]", ["And why?"], None, None),
    "an answer, its receipt, a question": (PLAIN, "Action: Finish[42]", ["Observation: ok", "Why?"], ["ok"], "Why?"),
    "words beside a result in mid-run": (PLAIN, REACT, ["Observation: ok", "hurry"], ["ok"], None),
    "an edit that fits": (PLAIN, EDIT, ["I updated the files.", "Now b.py."], ["I updated the files."], "Now b.py."),
    "an edit that does not fit": (PLAIN, EDIT, ["I updated the files.", ADDED, MISFIT], [MISFIT], None),
    "an edit that a person talks about": (PLAIN, EDIT, ["looks good"], None, None),
    "no call": ("mini-swe-agent", "I am done.", ["a b"], None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_calls_and_words(name: str) -> None:
    head, text, replies, results, words = TOLD[name]
    found = protocol.told(bare(system(HEADS[head][0]), user("Do it."), said(text)), text, replies)
    if results is None:
        assert found is None
        return
    assert found is not None
    assert [one and one.text for one in found.results] == results
    assert found.words == words


def test_markup_that_went_astray_is_no_call() -> None:
    """Where the request offers tools, a client reads calls, not texts."""
    text = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert protocol.told(bare(user("Go.")), text, ["a b"]) is not None
    assert protocol.told(ask(user("Go.")), text, ["You wrote the call as text."]) is None
    assert protocol.told(ask(user("Go.")), text, ["Observation: a b"]) is not None
    assert protocol.calls_in(ask(user("Go.")), text, known=list) == ()


def test_several_calls_and_their_results() -> None:
    text = '[{"action": "a", "action_input": {}}, {"action": "b", "action_input": {}}]'
    one = protocol.told(bare(user("Go.")), text, ["Observation: 1", "Observation: 2"])
    joined = protocol.told(bare(user("Go.")), text, ["Observation: 1\n2"])
    assert one is not None
    assert joined is not None
    assert [result and result.text for result in one.results] == ["1", "2"]
    assert [result and result.text for result in joined.results] == ["1\n2", "1\n2"]


@pytest.mark.parametrize(
    ("head", "text", "known", "expected"),
    [
        ("JSON", JSON, [], 1),
        ("nothing", JSON, [], 0),
        ("nothing", JSON, [JSON], 1),
        ("nothing", FENCE, [JSON], 0),
        ("ReAct", "Action: Finish[42]", [], 0),
        ("nothing", '<tool_call>{"name": "f", "arguments": {}}</tool_call>', [], 1),
        ("JSON", "I am done.", [JSON], 0),
    ],
)
def test_calls_of_an_answer(head: str, text: str, known: list[str], expected: int) -> None:
    told = bare(system(HEADS[head][0]), user("Do it."))
    assert len(protocol.calls_in(told, text, known=lambda: known)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("End with Final Answer: and the text", "Final Answer:"),
        ("or Finish[answer]", "Finish["),
        ("call final_answer(x)", "final_answer("),
        ("End when done.", ""),
    ],
)
def test_how_a_head_ends(text: str, expected: str) -> None:
    assert protocol.ending(ask(system(text), user("Do it."))) == expected
