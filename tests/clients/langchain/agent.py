"""An agent as LangChain's documentation shows it: agent.py chat|stream|responses TASK."""

import os
import sys

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

MODE, TASK = sys.argv[1:]


def read_note(path: str) -> str:
    """Read a file."""
    with open(path) as file:
        return file.read()


model = ChatOpenAI(model=os.environ["MODEL"], use_responses_api=MODE == "responses")
agent = create_agent(model, tools=[read_note], system_prompt="You are helpful.")
asked = {"messages": [{"role": "user", "content": TASK}]}
config = {"configurable": {"thread_id": "thread-42"}}  # stays in the process
if MODE == "stream":
    texts = [token.content for token, _ in agent.stream(asked, config, stream_mode="messages")]
    print("ANSWER", "".join(text if isinstance(text, str) else "" for text in texts))
else:
    print("ANSWER", agent.invoke(asked, config)["messages"][-1].text)
