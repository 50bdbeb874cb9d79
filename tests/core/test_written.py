"""Calls in texts: each form, what is none, and what a long or hostile text costs."""

from __future__ import annotations

import json

import pytest

from guardproxy.core import written as module
from guardproxy.core.written import Written, own_words, written
from tests.cheap import cheap

REPR = "[{'id': 'c1', 'type': 'function', 'function': {'name': 'read', 'arguments': {'path': \"it's\"}}}]"

FORMS: dict[str, tuple[str, str, list[tuple[str, object]]]] = {
    "ReAct": ("Thought: hm\nAction: Search[oil [crude]]", "react", [("Search", {"input": "oil [crude]"})]),
    "ReAct, numbered": ("Thought 2: hm\nAction 2: Lookup[x]", "react", [("Lookup", {"input": "x"})]),
    "ReAct, with arguments": ('Action: f("a", 1)', "react", [("f", {"input": 'a", 1'})]),
    "words for an action": ("Action: go to desk 1", "react", [("action", {"input": "go to desk 1"})]),
    "an action and its input": ("Thought: x\nAction: s\nAction Input: oil", "react", [("s", {"input": "oil"})]),
    "quoted input": ('Action: s\nAction Input: "oil"', "react", [("s", {"input": "oil"})]),
    "an object as input": ('Action: s\nAction Input: {"q": "oil", "n": 2}', "react", [("s", {"q": "oil", "n": 2})]),
    "an object as Python writes it": ("Action: s\nAction Input: {'q': 'oil'}", "react", [("s", {"q": "oil"})]),
    "bold words": ("**Action:** s\n**Action Input:** oil", "react", [("s", {"input": "oil"})]),
    "an object as action": (
        'Action:\n```json\n{"action": "s", "action_input": {"q": 1}}\n```',
        "react",
        [("s", {"q": 1})],
    ),
    "JSON alone": ('{"action": "s", "action_input": "oil"}', "json", [("s", {"input": "oil"})]),
    "several at once": (
        '[{"action": "a", "action_input": {}}, {"action": "b", "action_input": {}}]',
        "json",
        [("a", {}), ("b", {})],
    ),
    "one fenced command": ("THOUGHT: x\n\n```bash\nls -l\n```\n", "fence", [("bash", {"command": "ls -l"})]),
    "an empty command": ("```bash\n\n```", "fence", [("bash", {"command": ""})]),
    "the bash block among others": (
        "```python\nx = 1\n```\n```shell\nout\n```\n```bash\nls\n```",
        "fence",
        [("bash", {"command": "ls"})],
    ),
    "plain fences, the last": ("```\nout\n```\nso\n```\nls\n```", "fence", [("bash", {"command": "ls"})]),
    "a statement": ("```sql\nshow tables;\n```", "fence", [("sql", {"query": "show tables;"})]),
    "code": ("```py\nprint(1)\n```", "fence", [("python", {"code": "print(1)"})]),
    "a code blob": ("Thought: x\n<code>\nprint(1)\n</code>", "code", [("python_interpreter", {"code": "print(1)"})]),
    "a code blob that a stop word cut": ("<code>\nprint(1)\n", "code", [("python_interpreter", {"code": "print(1)"})]),
    "a transcript": (f"Calling tools:\n{REPR}", "transcript", [("read", {"path": "it's"})]),
    "functions as markup": (
        "<function=run>\n<parameter=command>ls</parameter>\n<parameter=x>\n1\n</parameter>\n</function>",
        "markup",
        [("run", {"command": "ls", "x": "1"})],
    ),
    "a tool call as markup": (
        '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>',
        "markup",
        [("f", {"x": 1})],
    ),
    "tags named after the tool": (
        "I look.\n<read_file>\n<path>a.py</path>\n</read_file>",
        "tags",
        [("read_file", {"path": "a.py"})],
    ),
    "an edit": (
        "a.py\n```\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n```",
        "edit",
        [("edit", {"blocks": "\nx\n=======\ny"})],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    text, form, calls = FORMS[name]
    found = written(text)
    assert found is not None
    assert found.form == form
    assert [(call.name, json.loads(call.arguments)) for call in found.calls] == calls


NONE: dict[str, str] = {
    "nothing": "",
    "words": "The answer is 42.",
    "a final answer": "Thought: I know.\nFinal Answer: 42",
    "two commands": "```bash\nls\n```\n```bash\npwd\n```",
    "one in another language": "```rust\nfn main() {}\n```",
    "code beside output": "```python\nprint(1)\n```\n```text\n1\n```",
    "an object that is no call": '{"name": "Ann", "age": 3}',
    "an object within words": 'Send {"action": "s"} to it.',
    "a list that is none": "[1, 2, 3]",
    "a list with something else in it": '[{"tool": "a", "args": {}}, {"x": 1}]',
    "torn JSON": '{"action": "s", "action_input": ',
    "a torn transcript": "Calling tools:\n[{'id': 'c1', 'type': …[cut, 461 characters]",
    "a transcript of something else": "Calling tools:\n[1, 2]",
    "an open fence": "```bash\nls",
    "an action of many lines": "Action:\nfirst this\nthen that",
    "tags of a page": "<h1>Title</h1><p>text</p>",
    "too long": "```bash\n" + "x" * module.MOST + "\n```",
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_call(name: str) -> None:
    assert written(NONE[name]) is None


@pytest.mark.parametrize(
    ("text", "final"),
    [
        ("Action: Finish[42]", True),
        ("Action: Final Answer\nAction Input: 42", True),
        ('{"action": "final_answer", "action_input": {"answer": "42"}}', True),
        ("<code>\nfinal_answer(42)\n</code>", True),
        ("```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```", True),
        ("```\nsubmit\n```", True),
        ("Action: Search[final answer]", False),
        ("```bash\nls submit\n```", False),
    ],
)
def test_what_ends_a_turn(text: str, final: bool) -> None:
    found = written(text)
    assert found is not None
    assert found.final is final


def test_a_result_in_the_text_itself() -> None:
    """Older crews keep the observation in the assistant's message; a model may make one up."""
    found = written(
        "Thought: x\nAction: s\nAction Input: oil\nObservation: none\nThought: hm\nAction: t\nAction Input: y"
    )
    assert found == Written(
        "react", found.calls if found else (), final=False, observed="none\nThought: hm\nAction: t\nAction Input: y"
    )
    assert [call.name for call in found.calls] == ["s"]


@pytest.mark.parametrize(
    ("text", "words", "calls"),
    [
        ("plain", "plain", 0),
        ("<code>\nf()\n</code>", "<code>\nf()", 0),
        (f"<code>\nf()\n</code>\nCalling tools:\n{REPR}", "<code>\nf()", 0),
        (f"Calling tools:\n{REPR}", f"Calling tools:\n{REPR}", 1),
        ("Calling tools:\n[torn", "Calling tools:\n[torn", 0),
    ],
)
def test_what_the_model_itself_said(text: str, words: str, calls: int) -> None:
    said, made = own_words(text)
    assert (said, len(made)) == (words, calls)


HOSTILE = [
    "<function=" * 15_000,
    "<function=f><parameter=" * 8_000,
    "<tool_call>" * 15_000,
    "<a_b>" * 30_000,
    "<a_b><c>" * 20_000 + "</a_b>",
    "```\n" * 40_001,
    "```bash\n" + "`` \n" * 40_000,
    "Action:" + " \n" * 90_000,
    "Action: f\n" * 15_000,
    "Action: f" + "[" * 150_000,
    "{" * 190_000,
    "[" * 190_000,
    '{"action":' * 18_000,
    "\n{" * 90_000,
    "<<<<< SEARCH" * 15_000,
    "Calling tools:\n" + "[" * 39_000,
    "Calling tools:\n" + "[" + "{'a':" * 7_000,
    "Action: f\nAction Input: " + "{'a':" * 7_000 + "1",
    "<code>" * 30_000,
    "\ud800```bash\n\ud800\n```",
]


@pytest.mark.parametrize("text", HOSTILE, ids=[text[:12] for text in HOSTILE])
def test_hostile_texts_cost_little_and_raise_nothing(text: str) -> None:
    with cheap(0.5):
        written(text)


def test_what_was_read_is_remembered_within_bounds() -> None:
    text = "```bash\nls remembered\n```"
    assert written(text) is written(text)
    for number in range(200):
        written(f"```bash\n{number} {'x' * 50_000}\n```")
    assert sum(len(call.arguments) for one in module._memo.values() if one for call in one.calls) <= module.MEMO
