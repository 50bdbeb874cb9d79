"""What was said, for spans: only where the owner asks for it, redacted and cut short. Never in the log or in metrics.

The names and the form of the messages are those of OpenTelemetry's GenAI conventions; the texts of a request are those
that it brings anew, since every span with the whole history would make a trace of a long run grow with its square.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import orjson

from guardproxy.core.model import Message, value
from guardproxy.core.tenant import SECRET
from guardproxy.telemetry import semconv as s

SHOWN = 1024
"""Characters of one text. Tempo cuts every attribute at 2,048 bytes unless it is told otherwise."""

MOST = 16
"""Messages, and names of tools, on one span."""

_READ = 8 * SHOWN  # characters that are searched: a secret that begins within what is shown ends within this
_HIDDEN = "[redacted]"
_WORDS = (
    r"passw(?:or)?d|passphrase|secret|(?<!per_)token(?!s|i[sz])"
    r"|(?:api|account|access|secret|private|signing|encryption|shared|master|auth)[_\- ]?key"
    r"|(?:db|user|smtp|mail|pg|mysql|redis|ftp|admin|root|auth|proxy)[_-]?pass(?![a-z])|(?-i:[A-Z0-9]_PASS)(?![a-z])"
    r"|(?<![a-z])pwd(?=[\"'\\]{0,8}\s{0,3}[:=]\s{0,3}[\"'\\]{0,8}[^\s\"'\\/~])"  # a shell's PWD is a path
)
_HARMLESS = (
    r"(?![\w-]{0,20}?(?:count|cost|modality|type|limit|usage|used|budget|policy|length|[_-]len|name|[_-]min|[_-]max|ttl|expir|ur[il]"
    r"|endpoint|[_-]file|[_-]path|field|required|enabled|reset|[_-]age|strength|version|rotation|manager|provider))"
)
"""What behind such a word says that its value is about a secret and none itself: `token_count`, `password_policy`."""

_QUOTED = r"(?P<quote>\\{0,7}[\"'])(?:(?!(?P=quote))\\*+[^\\])++"
"""To the quote that closes it; one that has more backslashes than the first (JSON in JSON) is inside."""

_BARE = r"(?!-----BEGIN)(?:(?:bearer|basic)\s+)?[^\s\"'\\,;&}]{4,}"
_NAMED = (
    rf"(?i:(?P<name>(?:{_WORDS}){_HARMLESS}[\w-]{{0,20}}[\"'\\]{{0,8}}\s{{0,3}}(?:=>|:=|[:=\uff1a])\s{{0,3}})"
    rf"(?:{_QUOTED}|[\"'\\]{{0,8}}{_BARE}))"
)
_FLAG = (
    r"(?P<flag>(?<!\S)(?:-u|--user|--proxy-user)[= ]{0,2}[\"']?)(?![0-9]+:[0-9]+)[^\s:\"'=/]{0,64}:[^\s\"']{3,}"
    r"|(?P<option>--(?:password|passphrase|pass|secret|token|api-key)\s{1,3})[\"']?(?!-)[^\s\"'\\]{4,}"
)
_QUERY = r"(?P<query>(?i:[?&](?:key|sig|signature|code|auth|hmac|sid|x-(?:amz|goog)-signature)=))[^\s&\"'#\\<>]{12,}"
_PREFIXED = (
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|pk|rk)-[\w-]{12,}|(?:sk|pk|rk)_(?:live|test|prod)_\w{8,}|whsec_\w{16,}"
    r"|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abeprs]-[\w-]{10,}|xai-\w{20,}|gsk_\w{20,}|hf_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{20,}"
    r"|A[KS]IA[0-9A-Z]{12,}|AIza[\w-]{30,}|ya29\.[\w-]{16,}|SG\.[\w-]{16,}[\w.-]*|dapi[0-9a-f]{32}"
    r"|(?:pplx|csk|tvly|tskey|NRAK|GOCSPX|sq0[a-z]{3}|xapp)-[\w-]{16,}"
    r"|(?:r8|fw|shp(?:at|ca|pa|ss)|lin_api|ntn|figd|gls?a|sbp|dckr_pat|lsv2_(?:pt|sk)|nfp|rnd|phx|dop_v1)_[A-Za-z0-9]{16,}[\w-]*"
    r"|hv[sb]\.[\w-]{20,}|ATATT[\w=-]{30,}|AGE-SECRET-KEY-1[0-9A-Z]{20,}|[0-9]{8,10}:AA[\w-]{30,}"
    r"|eyJ[\w-]{12,}(?:\.[\w-]*){0,4})"
    r"|(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[\w/-]{20,}|(?<=/api/webhooks/)[0-9]{6,20}/[\w-]{30,}"
)
_SECRETS = (
    rf"{SECRET.pattern}|gpa-[0-9A-Za-z_-]{{43}}",
    r"(?i:bearer\s+)[\w.~+/=-]{8,}",
    r"(?i:basic\s+)(?=[A-Za-z+/]{0,64}[0-9=])[\w+/]{8,}=*",
    r"(?i:authorization[\"'\\]{0,8}:\s{0,3}[\"'\\]{0,8}basic\s+)[\w+/]+=*",
    r"(?i:cookie[\"'\\]{0,8}(?:[:=]\s{0,3}|\s)[\"'\\]{0,8})[\w.-]{1,64}=[^\r\n\"'\\]+",
    _PREFIXED,
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"(?<=://)[^\s/:@\"']{0,256}:[^\s/\"'<>]{1,512}(?=@)",
    r"(?<=://)(?=[^\s/:@0-9]{0,64}[0-9])[^\s/:@\"'<>]{12,256}(?=@)",
    _NAMED,
    _FLAG,
    _QUERY,
)
_KEPT = rf"\g<name>\g<quote>\g<flag>\g<option>\g<query>{_HIDDEN}"
_NUMBERED = re.compile(r"\\{1,4}u00(2[01346789a-fA-F]|3[0-9a-fA-F]|4[0-9a-fA-F]|5[0-9abdefABDEF]|[67][0-9a-eA-E])")
"""A plain letter or sign written as its number, in JSON. Quotes and backslashes stay as they are: they are its form."""


@value
class Said:
    """The texts of a turn. `input`: the messages that the request brought after the newest answer, `output` that which
    the model gave last; `system`: leading instructions, on a run's first turn; `advice`: what was added by us.
    """

    system: tuple[str, ...] = ()
    input: tuple[Message, ...] = ()
    output: Message | None = None
    finish: str = ""
    tools: tuple[str, ...] = ()
    advice: str = ""
    answered: tuple[tuple[str, str, str], ...] = ()  # (tool, arguments, result) of the calls whose results it brought


class Redactor:
    """Hides what looks like a secret, and what the owner's own patterns find."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._secrets = re.compile("|".join(f"(?:{one})" for one in _SECRETS))
        self._own = [re.compile(one) for one in patterns]

    def __call__(self, text: str) -> str:
        """The text without them, cut to `SHOWN` characters; fit for JSON and for protobuf."""
        read = _NUMBERED.sub(_lettered, _cut(text).encode(errors="replace").decode())
        shown = self._secrets.sub(_KEPT, read)
        for pattern in self._own:
            shown = pattern.sub(_HIDDEN, shown)
        return shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 1]}…"


def _cut(text: str) -> str:
    """What is searched of a text, without the word in which it is cut: half of a secret looks like none."""
    if len(text) <= _READ:
        return text
    return text[: max(text.rfind(end, _READ - SHOWN, _READ) for end in " \n,") + 1] or text[: _READ - SHOWN]


def _lettered(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))


def of_chat(said: Said, redact: Redactor) -> dict[str, str]:
    """The attributes of the `chat` span."""
    found = {}
    if said.system:
        parts = [{"type": "text", "content": redact(text)} for text in said.system[:MOST]]
        found[s.GEN_AI_SYSTEM] = _json(parts)
    if said.input:
        found[s.GEN_AI_INPUT_MESSAGES] = _json([_message(one, redact) for one in said.input[-MOST:]])
    if said.output is not None:
        last = _message(said.output, redact)
        found[s.GEN_AI_OUTPUT_MESSAGES] = _json([last | {"finish_reason": said.finish or "error"}])
    if said.tools:
        found[s.GEN_AI_TOOL_DEFINITIONS] = _json([{"type": "function", "name": name} for name in said.tools[:MOST]])
    return found


def of_tool(said: Said, index: int, tool: str, redact: Redactor) -> dict[str, str]:
    """The attributes of the `execute_tool` span of the step at `index`, where it is the call at that place."""
    if index >= len(said.answered) or said.answered[index][0] != tool:
        return {}
    _, arguments, result = said.answered[index]
    return {s.GEN_AI_TOOL_ARGUMENTS: redact(arguments), s.GEN_AI_TOOL_RESULT: redact(result)}


def of_advice(said: Said, redact: Redactor) -> dict[str, str]:
    """The attribute of the span of an intervention: the text that the model was given."""
    return {s.ADVICE: redact(said.advice)} if said.advice else {}


def answered(messages: Sequence[Message]) -> tuple[tuple[str, str, str], ...]:
    """The calls of the newest answer with their results: by id where the ids are unique, else in order."""
    at = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].calls), None)
    if at is None:
        return ()
    calls, results = messages[at].calls, [one for one in messages[at + 1 :] if one.role == "tool"]
    by_id = {one.call_id: one.text for one in results if one.call_id}
    if len(by_id) == len(results) and len({call.id for call in calls}) == len(calls):
        return tuple((call.name, call.arguments, by_id.get(call.id, "")) for call in calls)
    texts = [one.text for one in results] + [""] * len(calls)
    return tuple((call.name, call.arguments, text) for call, text in zip(calls, texts, strict=False))


def _message(message: Message, redact: Redactor) -> dict[str, object]:
    if message.role == "tool":
        part = {"type": "tool_call_response", "id": message.call_id, "response": redact(message.text)}
        return {"role": "tool", "parts": [part]}
    parts: list[dict[str, object]] = [{"type": "text", "content": redact(message.text)}] if message.text else []
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": redact(call.arguments)}
        for call in message.calls[:MOST]
    ]
    return {"role": message.role, "parts": parts}


def _json(told: object) -> str:
    try:
        return orjson.dumps(told).decode()
    except TypeError:  # a lone surrogate in an id or a name
        return orjson.dumps(_clean(told)).decode()


def _clean(told: object) -> object:
    if isinstance(told, str):
        return told.encode(errors="replace").decode()
    if isinstance(told, dict):
        return {key: _clean(one) for key, one in told.items()}
    return [_clean(one) for one in told] if isinstance(told, list) else told
