"""An agent as smolagents' documentation shows it: agent.py tools|code TASK."""

import os
import sys

from smolagents import CodeAgent, OpenAIServerModel, ToolCallingAgent, tool

MODE, TASK = sys.argv[1:]


@tool
def read_note(path: str) -> str:
    """Read a file.

    Args:
        path: the file to read
    """
    with open(path) as file:
        return file.read()


model = OpenAIServerModel(os.environ["MODEL"], api_base=os.environ["BASE_URL"], api_key=os.environ["KEY"])
agent = (CodeAgent if MODE == "code" else ToolCallingAgent)(tools=[read_note], model=model)
print("ANSWER", agent.run(TASK))
