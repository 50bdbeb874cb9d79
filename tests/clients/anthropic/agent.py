"""The loop that the SDK's documentation shows: agent.py whole|stream|runner TASK."""

import os
import sys

from anthropic import Anthropic, beta_tool

MODE, TASK = sys.argv[1:]
MODEL = os.environ["MODEL"]
LIMIT = 25  # more than a proxy may need, less than for ever
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOL = {"name": "read_note", "description": "Read a file", "input_schema": SCHEMA}
FIXED = {"model": MODEL, "max_tokens": 1000, "system": "You are helpful."}
client = Anthropic()


@beta_tool
def read_note(path: str) -> str:
    """Read a file.

    Args:
        path: the file to read
    """
    with open(path) as file:
        return file.read()


def text(message):
    return "".join(block.text for block in message.content if block.type == "text")


def loop(stream):
    messages = [{"role": "user", "content": TASK}]
    for _ in range(LIMIT):
        if stream:
            with client.messages.stream(messages=messages, tools=[TOOL], **FIXED) as events:
                for _event in events:
                    pass
                message = events.get_final_message()
        else:
            message = client.messages.create(messages=messages, tools=[TOOL], **FIXED)
        messages.append({"role": "assistant", "content": message.content})
        if message.stop_reason != "tool_use":
            return text(message)
        results = []
        for block in message.content:
            if block.type == "tool_use":
                found = read_note.call(block.input)
                results.append({"type": "tool_result", "tool_use_id": block.id, "content": found})
        messages.append({"role": "user", "content": results})
    return "own limit"


def runner():
    tools, asked = [read_note], [{"role": "user", "content": TASK}]
    return text(client.beta.messages.tool_runner(messages=asked, tools=tools, **FIXED).until_done())


print("ANSWER", runner() if MODE == "runner" else loop(MODE == "stream"))
