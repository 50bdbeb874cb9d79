"""An agent as pydantic-ai's documentation shows it: agent.py chat|responses TASK."""

import os
import sys

from pydantic_ai import Agent

MODE, TASK = sys.argv[1:]
prefix = "openai-responses" if MODE == "responses" else "openai-chat"
agent = Agent(f"{prefix}:{os.environ['MODEL']}", instructions="You are helpful.")


@agent.tool_plain
def read_note(path: str) -> str:
    """Read a file."""
    with open(path) as file:
        return file.read()


print("ANSWER", agent.run_sync(TASK).output)
