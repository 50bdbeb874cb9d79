"""How a run is written down: OpenAI messages, and the tools of several clients with the forms of their results."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from tests.generated.words import Words

Json = dict[str, Any]
Op = tuple[str, Json, Any]
"""A tool, its arguments, its result: one call as a client would make and answer it."""
STYLES = ("claude", "codex", "openhands", "cline", "opencode", "gemini", "mini", "plain")
SHELL_ONLY = ("codex", "mini")
STARTS = ("Let me", "I'll", "Next I will", "Now I'll", "I need to", "Going to", "I should")


class Client:
    """Calls and results in the manner of one client (`style`)."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.rng = words.rng
        self.style = words.rng.choice(STYLES)
        self.full_form = words.rng.random() < 0.5
        self.asked: dict[str, str] = {}
        """What is wanted of a page, the same each time."""
        self.spoken: Callable[[str], str] = str
        """What becomes of a program's output: a loop's noise is put here, inside the client's own form."""

    def full(self, path: str) -> str:
        """Some clients ask for absolute paths."""
        return f"{self.words.root}/{path}" if self.style in ("claude", "openhands", "gemini", "opencode") else path

    def shell(self, command: str, output: str, code: int = 0, *, plain: bool = False) -> Op:
        """A command; `plain`: one whose output has no place for times or numbers of processes, as `cat`."""
        words, style = self.words, self.style
        output = output if plain or not output else self.spoken(output)
        if style == "claude":
            why = f"{words.verb().title()} the {words.noun()}"
            told = f"Exit code {code}\n{output}" if code else output
            return "Bash", {"command": command, "description": why}, told
        if style == "codex":
            meta = {"exit_code": code, "duration_seconds": round(self.rng.random() * 3, 1)}
            arguments = {"command": ["bash", "-lc", command], "workdir": words.root}
            return "shell", arguments, json.dumps({"output": output, "metadata": meta})
        if style == "openhands":
            tail = f"[Current working directory: {words.root}]\n[Command finished with exit code {code}]"
            return "execute_bash", {"command": command, "is_input": "false"}, f"{output}\n{tail}"
        if style == "cline":
            told = (
                f"Command executed.\nOutput:\n{output}"
                if not code
                else f"Command failed with exit code {code}.\n{output}"
            )
            return "execute_command", {"command": command, "requires_approval": False}, told
        if style == "gemini":
            head = [f"Output: {output or '(empty)'}"]
            if self.full_form:  # what the client wrote until it left out lines that say nothing
                head = [
                    f"Command: {command}",
                    "Directory: (root)",
                    *head,
                    "Error: (none)",
                    f"Exit Code: {code}",
                    "Signal: 0",
                ]
            elif code:
                head.append(f"Exit Code: {code}")
            return (
                "run_shell_command",
                {"command": command},
                "\n".join([*head, f"Process Group PGID: {words.number(5)}"]),
            )
        if style == "mini":
            return "bash", {"command": command}, f"<returncode>{code}</returncode>\n<output>\n{output}\n</output>"
        if style == "opencode":
            return "bash", {"command": command, "description": words.sentence()}, output
        return "exec", {"command": command}, output + (f"\n(exit {code})" if code else "")

    def read(self, path: str, lines: list[str], start: int = 1, count: int | None = None) -> Op:
        """A file from line `start` on, `count` lines or all."""
        shown = lines[start - 1 : None if count is None else start - 1 + count]
        numbered = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(shown, start))
        whole = start == 1 and count is None
        if self.style in SHELL_ONLY:
            last = start + len(shown) - 1
            command = f"cat {path}" if whole else f"sed -n '{start},{last}p' {path}"
            return self.shell(command, "\n".join(shown), plain=True)
        full, part = self.full(path), {} if whole else {"offset": start, "limit": count}
        if self.style == "claude":
            return "Read", {"file_path": full, **part}, numbered
        if self.style == "opencode":
            return "read", {"filePath": full, **part}, f"<file>\n{numbered}\n</file>"
        if self.style == "openhands":
            span = {} if whole else {"view_range": [start, start + len(shown) - 1]}
            told = f"Here's the result of running `cat -n` on {full}:\n{numbered}"
            return "str_replace_editor", {"command": "view", "path": full, **span}, told
        if self.style == "gemini":
            return "read_file", {"absolute_path": full, **part}, "\n".join(shown)
        span = {} if whole else {"start_line": start, "end_line": start + len(shown) - 1}
        return ("read_file" if self.style == "cline" else "read"), {"path": path, **span}, numbered

    def missing(self, path: str) -> Op:
        """Reading a file that is not there."""
        if self.style in SHELL_ONLY:
            return self.shell(f"cat {path}", f"cat: {path}: No such file or directory", 1, plain=True)
        tool, arguments, _ = self.read(path, [])
        told = {
            "claude": "<tool_use_error>File does not exist.</tool_use_error>",
            "openhands": f"ERROR:\nInvalid `path` parameter: {self.full(path)}. The path does not exist.",
            "opencode": f"Error: File not found: {self.full(path)}",
            "gemini": f"File not found: {self.full(path)}",
        }.get(self.style, f"ENOENT: no such file or directory, open '{path}'")
        return tool, arguments, told

    def edit(self, path: str, old: str, new: str, *, found: bool = True) -> Op:
        """Replace a text; `found`: whether it was there."""
        full, style = self.full(path), self.style
        lost = f"No match found for the text to replace in {full}."
        if style == "codex":
            patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch"
            told = (
                f"Success. Updated the following files:\nM {path}"
                if found
                else f"Failed to find expected lines in {path}"
            )
            return "apply_patch", {"input": patch}, told
        if style == "mini":
            return self.shell(f"sed -i 's/{old.strip()}/{new.strip()}/' {path}", "")
        names = {"claude": ("Edit", "file_path"), "gemini": ("replace", "file_path"), "opencode": ("edit", "filePath")}
        tool, key = names.get(style, ("edit", "path"))
        if style == "openhands":
            arguments = {"command": "str_replace", "path": full, "old_str": old, "new_str": new}
            told = (
                f"The file {full} has been edited. Here's a snippet:\n     7\t{new}\nReview the changes."
                if found
                else lost
            )
            return "str_replace_editor", arguments, told
        if style == "cline":
            diff = f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"
            told = f"The content was successfully saved to {path}." if found else lost
            return "replace_in_file", {"path": path, "diff": diff}, told
        arguments = {key: full, "old_string": old, "new_string": new}
        told = {"opencode": "", "plain": f"Edited {path}"}.get(style, f"The file {full} has been updated successfully.")
        return tool, arguments, told if found else lost

    def write(self, path: str, text: str) -> Op:
        full = self.full(path)
        if self.style in SHELL_ONLY:
            return self.shell(f"cat > {path} <<'EOF'\n{text}\nEOF", "")
        if self.style == "openhands":
            told = f"File created successfully at: {full}"
            return "str_replace_editor", {"command": "create", "path": full, "file_text": text}, told
        names = {
            "claude": ("Write", "file_path"),
            "gemini": ("write_file", "file_path"),
            "cline": ("write_to_file", "path"),
        }
        tool, key = names.get(self.style, ("write", "path"))
        return tool, {key: full, "content": text}, f"Successfully wrote to {full}"

    def grep(self, pattern: str, where: str, hits: list[str]) -> Op:
        told = "\n".join(hits)
        if self.style in ("claude", "opencode", "plain"):
            tool = "Grep" if self.style == "claude" else "grep"
            return tool, {"pattern": pattern, "path": where}, told or "No matches found"
        if self.style == "cline":
            told = f"Found {len(hits)} results.\n{told}"
            return "search_files", {"path": where, "regex": pattern, "file_pattern": f"*.{self.words.ext}"}, told
        if self.style == "gemini":
            told = f"Found {len(hits)} matches\n{told}" if hits else f'No matches found for pattern "{pattern}".'
            return "search_file_content", {"pattern": pattern, "path": where}, told
        return self.shell(f"grep -rn '{pattern}' {where}", told, 0 if hits else 1, plain=True)

    def listing(self, where: str, names: list[str], sizes: dict[str, int] | None = None) -> Op:
        """A folder. The time in it is that of the last change, so it is the same while nothing changes."""
        if self.style in ("cline", "gemini"):
            tool = "list_files" if self.style == "cline" else "list_directory"
            return tool, {"path": where}, "\n".join(names)
        sizes = sizes or {}
        rows = [
            f"-rw-r--r-- 1 dev dev {sizes.get(one, len(one) * 211):6} May  3 0{len(one) % 10}:14 {one}" for one in names
        ]
        return self.shell(f"ls -la {where}", "\n".join([f"total {len(names) * 4}", *rows]), plain=True)

    def todo(self, items: list[tuple[str, str]]) -> Op:
        """A plan of (step, status)."""
        if self.style in ("codex", "mini"):
            return "update_plan", {"plan": [{"step": a, "status": b} for a, b in items]}, "Plan updated"
        if self.style in ("claude", "opencode"):
            tool = "TodoWrite" if self.style == "claude" else "todowrite"
            todos = [{"content": a, "status": b, "id": str(n)} for n, (a, b) in enumerate(items, 1)]
            return (
                tool,
                {"todos": todos},
                "Todos have been modified successfully. Please proceed with the current tasks.",
            )
        tasks = [
            {"title": a, "status": "todo" if b == "pending" else "done" if b == "completed" else b} for a, b in items
        ]
        tool = "task_tracker" if self.style == "openhands" else "write_todos"
        return tool, {"command": "plan", "task_list": tasks}, f"Task list has been updated with {len(items)} items."

    def search(self, query: str, hits: list[tuple[str, str, str]]) -> Op:
        """The web: (title, address, words of the page)."""
        if self.style in ("claude", "codex", "openhands"):
            told = "\n\n".join(f"{n}. {a}\n{b}\n{c}" for n, (a, b, c) in enumerate(hits, 1)) or "No results found."
            tool = {"claude": "WebSearch", "codex": "web_search"}.get(self.style, "tavily_search")
            return tool, {"query": query}, told
        tool = "google_web_search" if self.style == "gemini" else "web_search"
        found = [{"title": a, "url": b, "snippet": c} for a, b, c in hits]
        return tool, {"query": query, "count": 5}, json.dumps({"query": query, "results": found})

    def fetch(self, url: str, text: str) -> Op:
        tool = {"claude": "WebFetch", "opencode": "webfetch"}.get(self.style, "web_fetch")
        if self.style == "claude" and url not in self.asked:
            self.asked[url] = self.words.sentence()
        more = {"prompt": self.asked[url]} if self.style == "claude" else {}
        return tool, {"url": url, **more}, text

    def agent(self, title: str, prompt: str, report: str) -> Op:
        tool, kind = ("Task", "general-purpose") if self.style == "claude" else ("task", "explore")
        return tool, {"description": title, "prompt": prompt, "subagent_type": kind}, report

    def wait(self, seconds: int) -> Op:
        if self.style == "plain":
            return "wait", {"seconds": seconds}, f"Waited {seconds} seconds"
        return self.shell(f"sleep {seconds}", "")


class Run:
    """A recorded run that grows. `chat` is how often the assistant says something beside its calls."""

    def __init__(self, rng: random.Random, client: Client | None = None) -> None:
        self.rng = rng
        self.client = client or Client(Words(rng))
        self.words = self.client.words
        self.messages: list[Json] = []
        self.files: dict[str, list[str]] = {}
        self.chat = rng.choice([0.0, 0.25, 0.6, 0.9])
        self.id_form = rng.choice(["call_", "toolu_01", "chatcmpl-tool-", "functions."])
        self.made = 0

    def begin(self, task: str) -> None:
        if self.rng.random() < 0.8:
            self.messages.append({"role": "system", "content": f"You are an assistant. {self.words.prose(3)}"})
        self.user(task)

    def user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def say(self, text: str) -> None:
        """A reply without a call."""
        self.messages.append({"role": "assistant", "content": text})

    def remark(self) -> str | None:
        if self.rng.random() >= self.chat:
            return None
        start = self.rng.choice(STARTS)
        tail = f" {self.words.sentence()}" if self.rng.random() < 0.4 else ""
        return f"{start} {self.words.verb()} the {self.words.adjective()} {self.words.noun()}.{tail}"

    def do(self, *ops: Op, text: str | None = None) -> None:
        """One round: the calls of one assistant message (several: in parallel), and their results."""
        calls, results = [], []
        for tool, arguments, result in ops:
            self.made += 1
            call = (
                f"functions.{tool}:{self.made}" if self.id_form == "functions." else self.id_form + self.words.token(20)
            )
            raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
            calls.append({"id": call, "type": "function", "function": {"name": tool, "arguments": raw}})
            results.append({"role": "tool", "tool_call_id": call, "content": result})
        said = text if text is not None else self.remark()
        self.messages += [{"role": "assistant", "content": said, "tool_calls": calls}, *results]

    def file(self, path: str) -> list[str]:
        """The lines of a file as they are now."""
        if path not in self.files:
            self.files[path] = self.words.code(self.rng.randint(2, 5))
        return self.files[path]

    def read(self, path: str) -> Op:
        return self.client.read(path, self.file(path))

    def listing(self, names: list[str]) -> Op:
        sizes = {one: sum(map(len, self.files[one])) for one in names if one in self.files}
        return self.client.listing(".", names, sizes)

    def change(self, path: str) -> Op:
        """An edit of a line, which is another one afterwards."""
        lines = self.file(path)
        at = self.rng.randrange(len(lines))
        old, new = lines[at], f"    {self.words.ident()}({self.words.noun()}, {self.rng.randint(0, 999)})"
        lines[at] = new
        return self.client.edit(path, old, new)

    def slip(self) -> None:
        """An error as a healthy agent makes it: once, and put right at once."""
        words, client = self.words, self.client
        what = self.rng.randrange(4)
        path = self.rng.choice(list(self.files) or [words.path()])
        if what == 0:
            self.do(client.grep(words.ident(), ".", []))
            self.do(
                client.grep(
                    words.noun(), ".", [f"{words.path()}:{words.number(2)}:{words.code(1)[0]}" for _ in range(3)]
                )
            )
        elif what == 1:
            self.do(client.missing(path.replace("_", "-", 1)))
            self.do(self.read(path))
        elif what == 2:
            url = words.url()
            for _ in range(self.rng.randint(1, 2)):
                self.do(client.fetch(url, "Error: 503 Service Unavailable"))
            self.do(client.fetch(url, words.prose(6)))
        else:
            self.do(client.edit(path, words.ident(), words.ident(), found=False))
            self.do(self.read(path))
            self.do(self.change(path))

    def maybe_slip(self, chance: float = 0.06) -> None:
        if self.rng.random() < chance:
            self.slip()

    def recorded(self, name: str) -> Json:
        return {"id": name, "source": "generated", "success": None, "labels": {}, "messages": self.messages}
