"""An agent as Strands' documentation shows it: agent.py TASK."""

import os
import sys

from strands import Agent, tool
from strands.models.openai import OpenAIModel


@tool
def read_note(path: str) -> str:
    """Read a file."""
    with open(path) as file:
        return file.read()


where = {"base_url": os.environ["BASE_URL"], "api_key": os.environ["KEY"]}
model = OpenAIModel(client_args=where, model_id=os.environ["MODEL"])
agent = Agent(model=model, tools=[read_note], system_prompt="You are helpful.", callback_handler=None)
print("ANSWER", agent(sys.argv[1]))
