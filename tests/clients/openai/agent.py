"""The loop of the SDK's documentation: agent.py chat|chat-stream|responses|responses-stream|responses-previous TASK."""

import json
import os
import sys

from openai import OpenAI

MODE, TASK = sys.argv[1:]
MODEL = os.environ["MODEL"]
LIMIT = 25  # more than a proxy may need, less than for ever
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
client = OpenAI()


def read_note(path):
    with open(path) as file:
        return file.read()


def chat(stream):
    messages = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": TASK}]
    function = {"name": "read_note", "description": "Read a file", "parameters": SCHEMA}
    more = {"model": MODEL, "tools": [{"type": "function", "function": function}]}
    for _ in range(LIMIT):
        if stream:
            with client.chat.completions.stream(
                messages=messages, stream_options={"include_usage": True}, **more
            ) as events:
                for _event in events:
                    pass
                message = events.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(messages=messages, **more).choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            text = read_note(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return "own limit"


def responses(stream, previous):
    tool = {"type": "function", "name": "read_note", "description": "Read a file", "parameters": SCHEMA, "strict": True}
    fixed = {"model": MODEL, "instructions": "You are helpful.", "tools": [tool]}
    items, last = [{"role": "user", "content": TASK}], None
    for _ in range(LIMIT):
        more = {"previous_response_id": last} if previous and last else {}
        if stream:
            with client.responses.stream(input=items, **fixed, **more) as events:
                for _event in events:
                    pass
                response = events.get_final_response()
        else:
            response = client.responses.create(input=items, **fixed, **more)
        last = response.id
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return response.output_text
        results = [
            {"type": "function_call_output", "call_id": c.call_id, "output": read_note(**json.loads(c.arguments))}
            for c in calls
        ]
        items = results if previous else items + response.output + results
    return "own limit"


surface, _, how = MODE.partition("-")
print("ANSWER", chat(how == "stream") if surface == "chat" else responses(how == "stream", how == "previous"))
