"""An agent as AutoGen's documentation shows it: agent.py TASK."""

import asyncio
import os
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient


async def read_note(path: str) -> str:
    """Read a file."""
    with open(path) as file:
        return file.read()


async def main():
    info = ModelInfo(vision=False, function_calling=True, json_output=True, structured_output=False, family="unknown")
    where = {"base_url": os.environ["BASE_URL"], "api_key": os.environ["KEY"]}
    client = OpenAIChatCompletionClient(model=os.environ["MODEL"], model_info=info, **where)
    agent = AssistantAgent(
        "reader", client, tools=[read_note], system_message="You are helpful.", max_tool_iterations=30
    )
    result = await agent.run(task=sys.argv[1])
    print("ANSWER", result.messages[-1])


asyncio.run(main())
