"""A crew of one, as crewai's documentation shows it: agent.py TASK."""

import os
import sys

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool


@tool("read_note")
def read_note(path: str) -> str:
    """Read a file."""
    with open(path) as file:
        return file.read()


llm = LLM(model="openai/" + os.environ["MODEL"], base_url=os.environ["BASE_URL"], api_key=os.environ["KEY"])
agent = Agent(role="reader", goal="read notes", backstory="none", tools=[read_note], llm=llm)
task = Task(description=sys.argv[1], expected_output="the text", agent=agent)
print("ANSWER", Crew(agents=[agent], tasks=[task]).kickoff())
