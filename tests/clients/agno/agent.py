"""An agent as agno's documentation shows it: agent.py chat|responses TASK."""

import os
import sys

from agno.agent import Agent
from agno.models.openai import OpenAIChat, OpenAIResponses

MODE, TASK = sys.argv[1:]


def read_note(path: str) -> str:
    """Read a file."""
    with open(path) as file:
        return file.read()


model = (OpenAIResponses if MODE == "responses" else OpenAIChat)(id=os.environ["MODEL"])
agent = Agent(model=model, tools=[read_note], instructions="You are helpful.", telemetry=False)
print("ANSWER", agent.run(TASK).content)
