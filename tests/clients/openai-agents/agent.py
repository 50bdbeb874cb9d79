"""An agent as the SDK's documentation shows it: agent.py responses|stream|previous|chat TASK."""

import asyncio
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI

MODE, TASK = sys.argv[1:]
MODEL = os.environ["MODEL"]


@function_tool
def read_note(path: str) -> str:
    """Read a file."""
    with open(path) as file:
        return file.read()


async def main():
    model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI()) if MODE == "chat" else MODEL
    agent = Agent(name="reader", instructions="You are helpful.", tools=[read_note], model=model)
    if MODE == "stream":
        run = Runner.run_streamed(agent, TASK)
        async for _event in run.stream_events():
            pass
    else:
        run = await Runner.run(agent, TASK, auto_previous_response_id=MODE == "previous")
    print("ANSWER", run.final_output)


asyncio.run(main())
