"""The configuration: what is accepted, what is refused and in which words, and what becomes of it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from guardproxy import config
from guardproxy._kinds import DEFAULT_UPSTREAM
from guardproxy.cli import NEEDED
from guardproxy.core import completion
from guardproxy.core.budget import Limit
from guardproxy.core.detectors import RULES
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Call, Triple, Usage
from guardproxy.core.presets import PRESETS, preset_settings
from guardproxy.core.pricing import Rates, Tier, cost, estimate_input
from guardproxy.core.terms import Approvals, Checkpoints, Final
from guardproxy.core.tool_rules import ToolRule, ToolRules
from guardproxy.core.tools import Rules
from guardproxy.core.windows import Budget
from guardproxy.errors import ConfigError


def load(tmp_path: Path, text: str | bytes, env: dict[str, str] | None = None, **overrides: object) -> config.Config:
    file = tmp_path / "guardproxy.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return config.load(file, env or {}, overrides)[0]


def budget(**changes: object) -> str:
    made = {"scope": "org", "dimension": "requests", "limit": 1, "window": "day"} | changes
    return f"budgets: [{json.dumps(made)}]"


REFUSED = {
    "unknown section": ("polcy: {}", "polcy: unknown key; did you mean 'policy'?"),
    "unknown key, deep": (
        "policy: {limits: {span: {turnz: 3}}}",
        "policy.limits.span.turnz: unknown key; did you mean 'turns'?",
    ),
    "unknown key without a near one": ("listen: {x: 1}", "listen.x: unknown key; known here: host, port, workers"),
    "unknown rule": (
        "policy: {detectors: {repeated_cal: {}}}",
        "policy.detectors.repeated_cal: unknown key; did you mean 'repeated_call'?",
    ),
    "unknown field of a rule": (
        "policy: {detectors: {repeated_call: {tripel: [3, 4, 6]}}}",
        "policy.detectors.repeated_call.tripel: unknown key; did you mean 'triple'?",
    ),
    "unknown key like a kind": ("listen: {int: 1}", "listen.int: unknown key"),
    "unknown key like a branch": ('"a[b": 1', "a[b: unknown key"),
    "a private webhook": (
        "webhook: {url: 'http://10.0.0.1/', secret: 0123456789abcdef}",
        "webhook.url: is refused: its address is private",
    ),
    "a certificate without its key": ("admin: {tls: {cert: a.pem}}", "admin.tls.key: is missing"),
    "no network": ("admin: {trusted_proxies: [nginx]}", "admin.trusted_proxies.0: must be an address or a network"),
    "unknown key of a price": (
        "prices: {models: {gpt-4o: {input: 1, output: 2, outptu: 3}}}",
        "prices.models.gpt-4o.outptu: unknown key; did you mean 'output'?",
    ),
    "triple too short": (
        "policy: {detectors: {cycle: {triple: [3, 4]}}}",
        "policy.detectors.cycle.triple: must be three whole numbers [nudge, firm, cut], 0 = never",
    ),
    "triple of flags": ("policy: {detectors: {cycle: {triple: [yes, 4, 5]}}}", "must be three whole numbers"),
    "triple falls": (
        "policy: {detectors: {cycle: {triple: [5, 4, 6]}}}",
        "policy.detectors.cycle.triple: must rise from nudge to firm to cut (0 = never)",
    ),
    "a flag for a number": (
        "policy: {limits: {span: {turns: yes}}}",
        "policy.limits.span.turns: must be a number, not true or false",
    ),
    "text for a number": ("listen: {port: many}", "listen.port: must be a whole number"),
    "port out of range": ("listen: {port: 70000}", "listen.port: input should be less than or equal to 65535"),
    "open to others": ("listen: {host: 0.0.0.0}", "auth: listen.host is 0.0.0.0, where others can reach this proxy"),
    "open to others, said once": ("listen: {host: 10.0.0.1}\nauth: none", "auth: listen.host is 10.0.0.1"),
    "open to anyone, of no mode": ("listen: {host: '::'}\nauth: {anyone: true}", "auth: listen.host is ::"),
    "two keys for one header": ("auth: passthrough\nupstream: {api_key: a}", "auth: passthrough sends on the client's"),
    "a name and a password": ("auth: passthrough\nupstream: {url: 'http://a:b@c'}", "auth: passthrough sends on"),
    "no such way in": ("auth: password", "auth.mode: input should be 'none', 'keys' or 'passthrough'"),
    "no workers": ("listen: {workers: 0}", "listen.workers: input should be greater than or equal to 1"),
    "limit of nothing": ("policy: {limits: {session: {cost_usd: 0}}}", "policy.limits.session.cost_usd: "),
    "infinite": ("policy: {limits: {session: {cost_usd: .inf}}}", "policy.limits.session.cost_usd: "),
    "a span has no cost": ("policy: {limits: {span: {cost_usd: 1}}}", "policy.limits.span.cost_usd: unknown key"),
    "a list for a section": ("listen: []", "listen: must be a mapping"),
    "text for a section": ("policy: strict", "policy: must be a mapping"),
    "text for a list": ("tools: {mutates: edit}", "tools.mutates: must be a list"),
    "a list of arguments without a tool": ("tools: {ignore_args: [nonce]}", "tools.ignore_args: must be a mapping"),
    "one argument": ("tools: {path_args: {read: path}}", "tools.path_args.read: must be a list"),
    "no argument": ("tools: {time_args: {logs: []}}", "tools.time_args.logs: must name at least one argument"),
    "an argument without a name": ("tools: {ignore_args: {f: ['']}}", "tools.ignore_args.f: must name at least one"),
    "a number for an argument": ("tools: {unordered_args: {f: [1]}}", "tools.unordered_args.f.0: must be text"),
    "a default without a name": ("tools: {defaults: {f: 1}}", "tools.defaults.f: must be a mapping"),
    "no default": ("tools: {defaults: {f: {}}}", "tools.defaults.f: must give at least one argument its default"),
    "a pattern of nothing": ("tools: {think_like: ['']}", "tools.think_like: an empty pattern matches no tool"),
    "a tool without a name": ("tools: {defaults: {' ': {a: 1}}}", "tools.defaults: an empty pattern matches no tool"),
    "two kinds at once": (
        "tools: {read_only: [Sync], mutates: [sync]}",
        "tools.read_only: 'sync' is in mutates too; a tool can be one of them only",
    ),
    "an unknown rule for tools": ("tools: {ignore_arg: {f: [a]}}", "tools.ignore_arg: unknown key; did you mean"),
    "missing price": ("prices: {models: {m: {input: 1}}}", "prices.models.m.output: is missing"),
    "a tier that begins nowhere": (
        "prices: {models: {m: {input: 1, output: 1, tiers: [{input: 2}]}}}",
        "prices.models.m.tiers.0.above: is missing",
    ),
    "a tier with a typo": (
        "prices: {models: {m: {input: 1, output: 1, tiers: [{above: 9, cached: 2}]}}}",
        "prices.models.m.tiers.0.cached: unknown key; did you mean 'cached_input'?",
    ),
    "two tiers in one": (
        "prices: {models: {m: {input: 1, output: 1, tiers: [{above: 9}, {above: 9, input: 2}]}}}",
        "prices.models.m.tiers: two begin at the same number of tokens",
    ),
    "what to do with unknown models": (
        "prices: {unknown: free}",
        "prices.unknown: input should be 'default', 'block' or 'alert'",
    ),
    "a price file that is not there": ("prices: {file: nowhere.json}", "prices.file: cannot read "),
    "negative price": ("prices: {models: {m: {input: -1, output: 1}}}", "prices.models.m.input: "),
    "mode of another kind": ("policy: {mode: enforced}", "policy.mode: input should be 'enforce' or 'observe'"),
    "no such preset": ("policy: {preset: mild}", "policy.preset: input should be 'strict', 'balanced' or 'patient'"),
    "wrong scheme": ("upstream: {url: 'ftp://x'}", "upstream.url: must be a URL that begins with http:// or https://"),
    "no host": ("upstream: {url: 'http://'}", "upstream.url: must be a URL"),
    "a query behind it": ("upstream: {url: 'http://x/v1?key=s3cr3t'}", "upstream.url: must end before the route"),
    "a fragment behind it": ("upstream: {url: 'http://x/v1#a'}", "upstream.url: must end before the route"),
    "port of a URL": ("upstream: {url: 'http://x:y/v1'}", "upstream.url: is no URL"),
    "redis scheme": ("store: {url: 'http://x'}", "store.url: must be a URL that begins with redis://"),
    "a cluster's port": ("store: {url: 'redis+cluster://a:1,b:x'}", "store.url: is no URL"),
    "half of a store's certificate": ("store: {tls: {cert: a}}", "store.tls"),
    "replicas below none": ("store: {wait_replicas: -1}", "store.wait_replicas: "),
    "unset variable": ("upstream: {api_key: '${NOWHERE}'}", "upstream.api_key: refers to ${NOWHERE}, which is not set"),
    "broken reference": ("upstream: {api_key: '${1}'}", "upstream.api_key: has a broken reference"),
    "open reference": ("upstream: {api_key: 'a${B'}", "upstream.api_key: has a broken reference"),
    "key given twice": ("listen: {}\nlisten: {}", "line 2, column 1 the key 'listen' is given twice"),
    "no YAML": ("listen: {port: [}", "line 1, column"),
    "tab": ("listen:\n\tport: 1", "line 2, column 1"),
    "impossible date": ("listen: {host: 2020-99-99}", "is no YAML"),
    "date": ("listen: {host: 2020-01-01}", "listen.host: must be text"),
    "a list": ("- 1", "must be a mapping of sections, not a list"),
    "a word": ("hello", "must be a mapping of sections, not text"),
    "a number as key": ("1: 2", "1: "),
    "python object": ("listen: !!python/object/apply:os.getcwd []", "line 1"),
    "refers to itself": ("listen: &a {host: *a}", "too large or refers to itself"),
    "not UTF-8": (b"listen: \xff", "is not UTF-8 (byte 8)"),
    "control character": (b"listen: \x00", "is no YAML"),
    "number of base 60": ("listen: {port: 1:20}", "listen.port: must be a whole number"),
    "fraction of base 60": ("upstream: {idle_seconds: 1:20.5}", "upstream.idle_seconds: must be a number"),
    "odd key": (
        'prices: {models: {"a\\nb": {input: 1, output: 1}}}',
        "prices.models: has a key with",
    ),
    "odd text in a list": ('tools: {mutates: [a, "b\\x1b"]}', "tools.mutates.1: must not hold a line break"),
    "a budget of nobody": (budget(scope="all"), "budgets.0.scope: input should be 'org', 'team'"),
    "a budget without a window": (
        "budgets: [{scope: org, dimension: requests, limit: 1}]",
        "budgets.0.window: must be one",
    ),
    "concurrency in a window": (
        "budgets: [{scope: org, dimension: concurrent_requests, window: day, limit: 1}]",
        "budgets.0.window: concurrent requests have none",
    ),
    "half a request": (budget(limit=0.5), "budgets.0.limit: must be a whole number"),
    "a budget of nothing": (budget(limit=0), "budgets.0.limit: "),
    "no such zone": (
        budget(timezone="Mars/Olympus"),
        "budgets.0.timezone: no time zone 'Mars/Olympus' is known",
    ),
    "a folder of zones": (budget(timezone="Europe"), "budgets.0.timezone: no time zone 'Europe' is known"),
    "more than all": (budget(soft=[101]), "budgets.0.soft.0: "),
    "a soft rate": (budget(window="minute", soft=[50]), "budgets.0.soft: rates have no soft limits"),
    "another org": (budget(match="acme"), "budgets.0.match: there is one org"),
    "two limits on one": (
        budget().replace("]", f", {budget(limit=2)[10:]}"),
        "budgets: two limits are given for org * requests day",
    ),
    "a status that is retried": ("policy: {deny_status: 503}", "policy.deny_status: "),
    "too large": (b"#" * ((1 << 20) + 1), "has more than"),
    "a mode of refusals": ("policy: {refuse: maybe}", "policy.refuse: input should be 'off', 'observe' or 'enforce'"),
    "a flag for a mode": ("policy: {refuse: on}", "policy.refuse: input should be 'off', 'observe' or 'enforce'"),
    "an unknown kind of hygiene": ("policy: {hygiene: {truncat: {}}}", "policy.hygiene.truncat: unknown key; did you"),
    "an unknown check": ("policy: {completion: {evidenc: {}}}", "policy.completion.evidenc: unknown key; did you mean"),
    "an unknown key of arguments": (
        "policy: {arguments: {repair: 1}}",
        "policy.arguments.repair: unknown key; did you",
    ),
    "too little of a result": (
        "policy: {hygiene: {truncate: {max_tokens: 1}}}",
        "policy.hygiene.truncate.max_tokens: must be at least 200",
    ),
    "a flag in a mapping of numbers": (
        "policy: {hygiene: {truncate: {tools: {bash: no}}}}",
        "policy.hygiene.truncate.tools.bash: must be a number, not true or false",
    ),
    "what is fatal": (
        "policy: {hygiene: {errors: {on_fatal: die}}}",
        "policy.hygiene.errors.on_fatal: input should be",
    ),
    "one tool that is required": (
        "policy: {completion: {required_tools: {tools: search}}}",
        "policy.completion.required_tools.tools: must be a list",
    ),
    "no regex": ("policy: {completion: {evidence: {pattern: '('}}}", "policy.completion.evidence.pattern: missing )"),
    "held maybe": ("policy: {final: {hold: maybe}}", "policy.final.hold: must be true or false"),
    "too many retries": ("policy: {final: {retries: 11}}", "policy.final.retries: must not be above 10"),
    "a failure of another kind": ("policy: {final: {on_failure: die}}", "policy.final.on_failure: input should be"),
    "held too long": ("policy: {approvals: {hold_seconds: 241}}", "policy.approvals.hold_seconds: must be 1 to 240"),
    "another way to ask": ("policy: {approvals: {way: wait}}", "policy.approvals.way: input should be 'hold' or"),
    "never expires": ("policy: {approvals: {expire_seconds: .inf}}", "policy.approvals.expire_seconds: "),
    "another end": (
        "policy: {approvals: {on_expiry: approve}}",
        "policy.approvals.on_expiry: input should be 'deny' or",
    ),
    "no room for a checkpoint": ("policy: {checkpoints: {max_kb: 0}}", "policy.checkpoints.max_kb: must be 1 to 65536"),
    "kept for ever": ("policy: {checkpoints: {ttl_seconds: 1.0e9}}", "policy.checkpoints.ttl_seconds: "),
    "a verifier without a secret": (
        "policy: {verifier: {url: 'http://x'}}",
        "policy.verifier.secret: must have at least 16 characters",
    ),
    "a verifier that takes its time": (
        "policy: {verifier: {timeout_seconds: 61}}",
        "policy.verifier.timeout_seconds: input should be less than or equal to 60",
    ),
    "a verifier elsewhere": ("policy: {verifier: {url: 'ftp://x'}}", "policy.verifier.url: must be a URL that begins"),
    "a webhook with a short secret": ("webhook: {url: 'http://x', secret: s}", "webhook.secret: must have at least 16"),
    "a webhook with a typo": ("webhook: {uri: 'http://x'}", "webhook.uri: unknown key; did you mean 'url'?"),
    "another end of a loop": ("policy: {on_cut: deny}", "policy.on_cut: input should be 'cut' or 'pause'"),
    "another end of a budget": ("policy: {on_budget: cut}", "policy.on_budget: input should be 'deny' or 'pause'"),
    "one forbidden tool": ("tools: {deny: delete}", "tools.deny: must be a list"),
    "a number for a tool": ("tools: {deny: [a, 3]}", "tools.deny.1: must be a mapping, or the name of a tool"),
    "no tool": ("tools: {deny: [' ']}", "tools.deny.0.tool: an empty pattern matches no tool"),
    "a rule without a tool": ("tools: {approval: [{args: {}}]}", "tools.approval.0.tool: is missing"),
    "a misspelled rule": ("tools: {deny: [{tool: x, arg: {}}]}", "tools.deny.0.arg: unknown key; did you mean 'args'?"),
    "a number for a glob": ("tools: {human: [{tool: x, args: {a: 3}}]}", "tools.human.0.args.a: must be text"),
    "one path": ("tools: {later: [{tool: x, paths: /etc}]}", "tools.later.0.paths: must be a list"),
    "a flag for a deadline": ("tools: {deadlines: {x: yes}}", "tools.deadlines.x: must be a number, not true or false"),
    "a deadline that is over": ("tools: {deadlines: {x: -1}}", "tools.deadlines.x: must be seconds, more than 0"),
    "a deadline of no tool": ("tools: {deadlines: {'': 1}}", "tools.deadlines: an empty pattern matches no tool"),
}


@pytest.mark.parametrize(("text", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)

    assert words in caught.value.message
    assert "Traceback" not in caught.value.message


UNBOUNDED = {
    "policy.approvals.expire_seconds": "1.0e+300",
    "policy.approvals.hold_seconds": "9" * 400,
    "policy.arguments.repairs": "9" * 400,
    "policy.checkpoints.max_kb": "9" * 400,
    "policy.checkpoints.ttl_seconds": "1.0e+300",
    "policy.final.retries": "9" * 30,
    "policy.hygiene.errors.longest_seconds": "9" * 400,
    "policy.hygiene.truncate.max_tokens": "9" * 400,
    "policy.verifier.url": '"http://a\\nb"',
    "policy.hygiene.truncate.tools.x": "9" * 400,
    "tools.deadlines.x": "1.0e+300",
    "webhook.timeout_seconds": "1.0e+300",
    "webhook.url": '"http://a\\nb"',
    "admin.port": "70000",
    "listen.workers": "99999999999999999999999",
    "overload.max_body_mb": "9" * 400,
    "overload.max_expanded_mb": "9" * 400,
    "overload.max_in_flight": "9" * 30,
    "policy.default_output_hold": "1000000000000000000000000000000",
    "policy.detectors.cycle.longest": "100000000",
    "policy.detectors.cycle.triple": "[3, 4, 99999999999999999999999]",
    "policy.detectors.interleaved_repeat.gap": "9" * 400,
    "policy.detectors.repeated_error.growth": "1.0e+300",
    "policy.detectors.repeated_error.pause_ms": "9" * 400,
    "policy.detectors.unchanged_poll.patience_ms": "1" + "0" * 20,
    "policy.limits.session.cost_usd": "1.0e+300",
    "policy.limits.session.total_tokens": "9" * 23,
    "policy.limits.session.turns": "99999999999999999999999",
    "policy.limits.session.wall_seconds": "1.0e+300",
    "policy.limits.span.same_call": "9" * 400,
    "policy.limits.span.wall_seconds": "1e400",
    "prices.default.input": "1.0e+300",
    "prices.default.output": "9" * 400,
    "prices.models.m.cache_write": "1.0e+300",
    "store.lease_seconds": "1.0e+300",
    "store.timeout_ms": "100000000000000000000",
    "store.data_dir": '"a\\nb"',
    "store.url": '"redis://a\\tb"',
    "telemetry.otlp_endpoint": '"http://a\\rb"',
    "telemetry.service_name": '"\\ud800"',
    "listen.host": '"a\\0b"',
    "upstream.api_key": '"a\\r\\nX-Evil: y"',
    "upstream.connect_seconds": "1.0e+300",
    "upstream.first_byte_seconds": "1.0e+300",
    "upstream.idle_seconds": "1.0e+300",
    "upstream.retries": "9" * 400,
    "upstream.url": '"http://a\\nb"',
}


@pytest.mark.parametrize(("path", "value"), UNBOUNDED.items(), ids=UNBOUNDED.keys())
def test_refused_by_path(tmp_path: Path, path: str, value: str) -> None:
    """What would be a 500 at each request, or a start that hangs, is an error of the file."""
    keys = path.split(".")
    text = ": {".join(keys) + f": {value}" + "}" * (len(keys) - 1)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)

    assert f"  {path}: " in caught.value.message


def test_control_characters_of_the_environment(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"upstream\.api_key: must not hold a line break"):
        load(tmp_path, "upstream: {api_key: '${K}'}", {"K": "secret\n"})
    with pytest.raises(ConfigError, match=r"upstream\.url: must not hold a line break"):
        load(tmp_path, "", {"OPENAI_BASE_URL": "http://a\n/v1"})


def test_a_url_with_spaces(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"upstream\.url: must be a URL without spaces"):
        load(tmp_path, "upstream: {url: 'http://a b/v1'}")


LARGEST = """
policy: {limits: {session: {cost_usd: 1000000000, wall_seconds: 31622400, total_tokens: 1000000000000}}}
prices: {default: {input: 100000, output: 100000}}
"""


def test_the_largest_amounts_are_exact_doubles(tmp_path: Path) -> None:
    made = load(tmp_path, LARGEST)
    dear = cost(made.price_table()[1], Usage(input=estimate_input(1024 << 20), output=10**8))

    assert all(limit.limit < 2**53 for limit in made.policy_value().limits)
    assert dear < 2**53


PRICED = """
prices:
  file: sub/prices.json
  models:
    m*:
      input: 1
      output: 2
      cached_input: 0
      cache_write_1h: 4
      reasoning: 5
      input_audio: 6
      input_image: 7
      output_audio: 8
      output_image: 9
      thousand_requests: 12
      thousand_searches: 10
      thousand_file_searches: 2.5
      tiers: [{above: 100, input: 10}, {above: 200, output: 20, cached_input: 3}]
"""


def test_all_kinds_of_prices(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "prices.json").write_text(
        '{"a": {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}, "b": 1}'
    )
    made = load(tmp_path, PRICED)
    table, fallback = made.price_table()
    most = Rates(
        1, 2, 0, cache_write_1h=4, reasoning=5, audio=6, image=7, audio_output=8, image_output=9, request=12_000
    )
    most = replace(most, search=10_000, file_search=2500)
    one = replace(most, input=10)

    assert table == {
        "m*": replace(
            most,
            tiers=(Tier(200, replace(one, output=20, cached=3)), Tier(100, one)),
        )
    }
    assert (fallback.known, table["m*"].known) == (False, True)
    assert made.price_list().rates == {"a": Rates(1, 2)}, "beside the configuration, wherever it was read from"
    assert made.price_list().wrong == ("'b': is no mapping of prices",)
    assert config.build({}).price_list().rates == {}


def test_all_errors_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "listen: {port: x, hots: y}\nupstream: {api_key: '${NO}'}\nnope: 1")

    for path in ("listen.port", "listen.hots", "upstream.api_key", "nope"):
        assert f"  {path}: " in caught.value.message


@pytest.mark.parametrize("key", ["s3cr3t", "${1}s3cr3t"])
def test_no_value_is_repeated(tmp_path: Path, key: str) -> None:
    text = f"upstream: {{api_key: [{key!r}]}}\nstore: {{url: 'http://:s3cr3t@x'}}\nlisten: {{port: s3cr3t}}"
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)

    assert "s3cr3t" not in caught.value.message


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    made = load(tmp_path, "upstream: {api_key: s3cr3t}\nstore: {url: 'redis://:s3cr3t@x'}")

    assert made.upstream.api_key == "s3cr3t"
    assert "s3cr3t" not in repr(made)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere.yaml: No such file"):
        config.load(tmp_path / "nowhere.yaml", {})


@pytest.mark.parametrize("text", ["", "# only words\n", "policy:\n  # mode: observe\n", "\ufeff{}"])
def test_nothing_said_means_the_defaults(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text).policy_value() == config.load(None, {})[0].policy_value()


REFERENCES = {
    "plain": ("${A}", {"A": "x"}, "x"),
    "inside": ("a-${A}-${B}", {"A": "x", "B": "y"}, "a-x-y"),
    "default": ("${A:-d}", {}, "d"),
    "default for an empty one": ("${A:-d}", {"A": ""}, "d"),
    "default is not used": ("${A:-d}", {"A": "x"}, "x"),
    "empty default": ("x${A:-}", {}, "x"),
    "escaped": ("$${A}", {}, "${A}"),
    "dollar alone": ("$A", {}, "$A"),
    "not read again": ("${A}", {"A": "${B}"}, "${B}"),
}


@pytest.mark.parametrize(("written", "env", "read"), REFERENCES.values(), ids=REFERENCES.keys())
def test_references(tmp_path: Path, written: str, env: dict[str, str], read: str) -> None:
    assert load(tmp_path, f"upstream: {{api_key: '{written}'}}", env).upstream.api_key == read


def test_references_make_numbers_and_nothing(tmp_path: Path) -> None:
    made = load(tmp_path, "listen: {port: '${P}'}\nupstream: {api_key: '${K:-}'}\nstore: {url: '${U:-}'}", {"P": "99"})

    assert (made.listen.port, made.upstream.api_key, made.store.url) == (99, None, None)


def test_environment_where_the_file_is_silent(tmp_path: Path) -> None:
    env = {"OPENAI_BASE_URL": "http://a/v1/", "XDG_DATA_HOME": "/x", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}
    silent, loud = load(tmp_path, "", env), load(tmp_path, "upstream: {url: 'http://b/v1'}", env)

    assert (silent.upstream.url, loud.upstream.url) == ("http://a/v1", "http://b/v1")
    assert str(silent.data_dir) == "/x/guardproxy"
    assert silent.telemetry.otlp_endpoint == "http://c:4318"
    assert config.load(None, {})[0].upstream.url == DEFAULT_UPSTREAM


def test_command_line_wins(tmp_path: Path) -> None:
    made = load(tmp_path, "listen: {port: 1, workers: 2}", {"OPENAI_BASE_URL": "http://a"}, **{"listen.port": 7})

    assert (made.listen.port, made.listen.workers) == (7, 2)


AUTH = {
    "": ("none", False),
    "auth: keys": ("keys", False),
    "auth: {mode: passthrough}": ("passthrough", False),
    "auth: keys\nlisten: {host: 0.0.0.0}": ("keys", False),
    "auth: {mode: none, anyone: true}\nlisten: {host: 0.0.0.0}": ("none", True),
    "listen: {host: localhost}": ("none", False),
    "listen: {host: 127.0.0.9}": ("none", False),
    "listen: {host: '::1'}": ("none", False),
    "auth:": ("none", False),
}


@pytest.mark.parametrize(("text", "auth"), AUTH.items())
def test_auth(tmp_path: Path, text: str, auth: tuple[str, bool]) -> None:
    made = load(tmp_path, text)

    assert (made.auth.mode, made.auth.anyone) == auth


def test_the_command_line_wins_over_the_short_form_too(tmp_path: Path) -> None:
    assert load(tmp_path, "auth: none", **{"auth.mode": "keys"}).auth.mode == "keys"
    with pytest.raises(ConfigError, match=r"auth: listen\.host is 0\.0\.0\.0"):
        load(tmp_path, "auth: keys", **{"auth.mode": "none", "listen.host": "0.0.0.0"})


def test_document_makes_an_equal_tree(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("policy: {limits: {span: {turns: null}}, detectors: {cycle: {triple: [2, 3, 4]}}}")
    made, document = config.load(file, {"OPENAI_BASE_URL": "http://a"})

    assert config.build(document) == made
    assert config.build(document).policy_value() == made.policy_value()


ITSELF = {
    "itself": ("http://127.0.0.1:8787/v1", 8787, True),
    "by name": ("http://localhost:8787/v1", 8787, True),
    "another port": ("http://127.0.0.1:8788/v1", 8787, False),
    "another host": ("http://10.0.0.1:8787/v1", 8787, False),
    "any free port": ("http://127.0.0.1:8787/v1", 0, False),
}


@pytest.mark.parametrize(("url", "port", "refused"), ITSELF.values(), ids=ITSELF.keys())
def test_upstream_is_not_this_proxy(tmp_path: Path, url: str, port: int, refused: bool) -> None:
    made = load(tmp_path, f"listen: {{port: {port}}}", {"OPENAI_BASE_URL": url})
    if not refused:
        made.refuse_itself()
        return
    with pytest.raises(ConfigError, match=r"upstream\.url: .* is this proxy itself"):
        made.refuse_itself()


LIMITS = {
    "coding": ("", {("span", "turns", 200), ("span", "tool_calls", 500), ("span", "wall_ms", 7_200_000)}),
    "qa": ("profile: qa", {("span", "turns", 8)}),
    "cross_system": ("profile: cross_system", {("span", "turns", 25)}),
    "none": ("profile: none", set()),
    "overridden": ("{profile: qa, limits: {span: {turns: 9}}}", {("span", "turns", 9)}),
    "taken away": ("{profile: qa, limits: {span: {turns: null}}}", set()),
    "added": (
        "{profile: none, limits: {session: {cost_usd: 0.5, wall_seconds: 2.5}, span: {same_call: 3}}}",
        {("session", "cost_microusd", 500_000), ("session", "wall_ms", 2500), ("span", "same_call", 3)},
    ),
    "never none by rounding": (
        "{profile: none, limits: {session: {cost_usd: 0.0000001}}}",
        {("session", "cost_microusd", 1)},
    ),
}


@pytest.mark.parametrize(("policy", "limits"), LIMITS.values(), ids=LIMITS.keys())
def test_limits(tmp_path: Path, policy: str, limits: set[tuple[str, str, int]]) -> None:
    made = load(tmp_path, f"policy: {policy}" if policy.startswith("{") or not policy else f"policy: {{{policy}}}")
    found = set(made.policy_value().limits)
    if made.policy.profile == "coding":
        assert Limit("session", "cost_microusd", 20_000_000) in found
        found.discard(Limit("session", "cost_microusd", 20_000_000))

    assert found == {Limit(*limit) for limit in limits}


def test_detectors(tmp_path: Path) -> None:
    made = load(
        tmp_path,
        "policy: {mode: observe, detectors: {cycle: {enabled: false}, "
        "repeated_call: {mode: enforce, triple: [2, 0, 9]}}}",
    ).policy_value()

    assert set(made.detectors) == set(RULES) - {"cycle"}
    assert made.detectors["repeated_call"] == RULES["repeated_call"].Settings(triple=Triple(2, 0, 9))
    assert (made.mode_of("repeated_call"), made.mode_of("monologue")) == ("enforce", "observe")


def test_defaults_of_rules_are_their_own() -> None:
    made = config.load(None, {})[0].policy_value()

    assert made.detectors == {rule: module.Settings() for rule, module in RULES.items()}


def test_prices(tmp_path: Path) -> None:
    table, default = load(
        tmp_path, "prices: {default: {input: 1, output: 2}, models: {'m*': {input: 3, output: 4, cached_input: 0}}}"
    ).price_table()

    assert (default.input, default.output, default.known) == (1, 2, False)
    assert (table["m*"].input, table["m*"].cached, table["m*"].cache_write, table["m*"].known) == (3, 0, -1, True)


def test_unknown_models_are_never_free() -> None:
    assert config.load(None, {})[0].price_table()[1].input > 0


def test_rules_for_tools(tmp_path: Path) -> None:
    rules = load(tmp_path, "tools: {ignore_args: {search: [request_id]}, mutates: ['deploy*']}").rules_value()

    assert rules.ignore_args == {"search": ("request_id",)}
    assert rules.mutates == ("deploy*",)


def test_every_rule_for_tools_reaches_the_core(tmp_path: Path) -> None:
    text = """
tools:
  defaults: {search: {limit: 10, deep: false, tags: [], q: null}}
  ignore_args: {'*': [nonce]}
  unordered_args: {label: [labels]}
  path_args: {read: [path]}
  time_args: {logs: [since, until]}
  think_like: [ponder]
  failure_ok: [lint]
  read_only: [update_check]
  mutates: ['deploy*']
  shells: [console]
"""
    rules = load(tmp_path, text).rules_value()

    assert {name: getattr(rules, name) for name in Rules.__slots__} == {
        "defaults": {"search": {"limit": 10, "deep": False, "tags": [], "q": None}},
        "ignore_args": {"*": ("nonce",)},
        "unordered_args": {"label": ("labels",)},
        "path_args": {"read": ("path",)},
        "time_args": {"logs": ("since", "until")},
        "think_like": ("ponder",),
        "failure_ok": ("lint",),
        "read_only": ("update_check",),
        "mutates": ("deploy*",),
        "shells": ("console",),
    }
    printer = Fingerprinter(b"k", rules)
    assert printer.call(Call("SEARCH", '{"limit":10,"nonce":1}')) == printer.call(Call("search", "{}"))


def test_frozen() -> None:
    made = config.load(None, {})[0]
    with pytest.raises(ValueError, match="frozen"):
        made.listen.port = 1  # type: ignore[misc]


def test_a_setting_wins_over_the_preset(tmp_path: Path) -> None:
    """Field by field: what is not written down stays the preset's, also where it is the default's number."""
    rules = "{repeated_call: {triple: [3, 4, 6]}, cycle: {enabled: false}, monologue: {mode: observe}}"
    policy = load(tmp_path, f"policy: {{preset: strict, detectors: {rules}}}").policy_value()
    expected = preset_settings("strict")
    del expected["cycle"]
    expected["repeated_call"] = replace(expected["repeated_call"], triple=Triple(3, 4, 6))  # type: ignore[type-var]

    assert policy.detectors == expected
    assert policy.modes == {"monologue": "observe"}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_alone(tmp_path: Path, name: str) -> None:
    assert load(tmp_path, f"policy: {{preset: {name}}}").policy_value().detectors == preset_settings(name)


BUDGETS = """
budgets:
  - {scope: org, dimension: cost_usd, window: month, limit: 0.5, timezone: Europe/Berlin, soft: [95, 50, 50]}
  - {scope: model, match: "gpt-5*", dimension: total_tokens, window: minute, limit: 1000}
  - {scope: key, dimension: concurrent_requests, limit: 4}
"""


def test_budgets(tmp_path: Path) -> None:
    made = load(tmp_path, BUDGETS)
    assert made.budget_values() == (
        Budget("org", "cost_microusd", "month", 500_000, "Europe/Berlin", (50, 95)),
        Budget("model", "total_tokens", "minute", 1000, match="gpt-5*"),
        Budget("key", "concurrent_requests", "now", 4),
    )
    assert load(tmp_path, "").budget_values() == ()


def test_what_becomes_of_requests_without_room(tmp_path: Path) -> None:
    made = load(tmp_path, "policy: {deny_status: 402, shrink_to_fit: true, unmetered: pass}").policy_value()
    assert (made.deny_status, made.shrink_to_fit, made.unmetered) == (402, True, "pass")
    plain = load(tmp_path, "").policy_value()
    assert (plain.deny_status, plain.shrink_to_fit, plain.unmetered) == (400, False, "refuse")


MODES = {
    # where a mode is written, and where it is read in the policy
    "refuse": ("{refuse: MODE}", lambda made: {made.proposals["repeat"].mode, made.proposals["deny"].mode}),
    "arguments": ("{arguments: {mode: MODE}}", lambda made: {made.proposals["arguments"].mode}),
    "hygiene": ("{hygiene: {truncate: {mode: MODE}}}", lambda made: {made.hygiene["truncate"].mode}),
    "completion": ("{completion: {evidence: {mode: MODE}}}", lambda made: {made.completion["evidence"].mode}),
}


@pytest.mark.parametrize("observing", [False, True])
@pytest.mark.parametrize("mode", ["off", "observe", "enforce"])
@pytest.mark.parametrize("name", MODES)
def test_modes(tmp_path: Path, name: str, mode: str, observing: bool) -> None:
    """YAML reads a bare off as a flag; and an observing policy enforces nothing."""
    written, read = MODES[name]
    made = load(tmp_path, f"policy: {written.replace('MODE', mode)}").policy
    seen = load(
        tmp_path, f"policy: {written.replace('MODE', mode)[:-1]}, mode: {'observe' if observing else 'enforce'}}}"
    )

    assert read(seen.policy_value()) == {"observe" if observing and mode == "enforce" else mode}
    assert made.mode == "enforce"


def test_what_an_observing_policy_asks_a_person() -> None:
    """Nobody: approvals and questions are reported and handed on, too."""
    for mode, expected in (("enforce", "enforce"), ("observe", "observe")):
        made = config.build({"policy": {"mode": mode}}).policy_value().proposals
        assert {made[name].mode for name in ("approval", "human")} == {expected}  # type: ignore[attr-defined]


TERMS = """
policy:
  refuse: observe
  arguments: {mode: enforce, repairs: 1}
  hygiene: {truncate: {mode: enforce, max_tokens: 500, tools: {bash: 300}}, empty: {mode: observe}}
  completion: {required_tools: {tools: [run_tests], arguments: {run_tests: "*all*"}}}
  final: {hold: true, retries: 1, on_failure: cut}
  approvals: {way: hold, hold_seconds: 30, expire_seconds: 60, on_expiry: cut}
  checkpoints: {enabled: true, max_kb: 2, ttl_seconds: 90}
  on_cut: pause
  on_budget: pause
tools:
  deny: [drop_*, {tool: bash, args: {command: "rm *"}, paths: [/etc], reason: unsafe}]
  approval: [send_*]
  human: [ask]
  later: [job]
  final: [finish]
  deadlines: {bash: 1.5}
  mutates: [edit]
"""


def test_what_is_written_is_what_holds(tmp_path: Path) -> None:
    made = load(tmp_path, TERMS)
    policy = made.policy_value()

    assert policy.final == Final(hold=True, retries=1, on_failure="cut")
    assert policy.approvals == Approvals("hold", 30, 60, "cut")
    assert policy.checkpoints == Checkpoints(enabled=True, max_kb=2, ttl_seconds=90)
    assert (policy.on_cut, policy.on_budget) == ("pause", "pause")
    bash = ToolRule("bash", {"command": "rm *"}, ("/etc",), "unsafe")
    rules = [(ToolRule(name),) for name in ("send_*", "ask", "job", "finish")]
    assert policy.tools == ToolRules((ToolRule("drop_*"), bash), *rules, {"bash": 1.5})
    assert made.rules_value() == Rules(mutates=("edit",))
    assert policy.hygiene["truncate"].tools == {"bash": 300}  # type: ignore[attr-defined]
    assert policy.completion["required_tools"].tools == ("run_tests",)  # type: ignore[attr-defined]
    assert policy.proposals["arguments"].repairs == 1  # type: ignore[attr-defined]


def test_a_document_with_rules_makes_an_equal_tree(tmp_path: Path) -> None:
    """It goes to the workers, as it was read."""
    file = tmp_path / "c.yaml"
    file.write_text(TERMS)
    made, document = config.load(file, {})

    assert config.build(document).policy_value() == made.policy_value()


def test_what_is_safe_by_default() -> None:
    policy = config.build({}).policy_value()

    assert policy.proposals["repeat"].mode == "enforce"  # type: ignore[attr-defined]
    assert policy.proposals["arguments"].mode == "off"  # type: ignore[attr-defined]
    assert {settings.mode for settings in policy.hygiene.values()} == {"off"}  # type: ignore[attr-defined]
    assert completion.in_use(policy.completion) == {}
    assert (policy.final, policy.approvals, policy.checkpoints) == (Final(), Approvals(), Checkpoints())
    assert (policy.on_cut, policy.on_budget, policy.tools) == ("cut", "deny", ToolRules())


@pytest.mark.parametrize("section", ["webhook", "policy.verifier"])
def test_who_is_told_and_asked_is_signed_and_not_shown(tmp_path: Path, section: str) -> None:
    text = "{url: 'https://x/y?token=s3cr3t', secret: '${S}'}"
    env = {"S": "s3cr3t-and-long-enough"}
    made = load(tmp_path, f"{section}: {text}" if section == "webhook" else f"policy: {{verifier: {text}}}", env)
    found = made.webhook if section == "webhook" else made.policy.verifier

    assert (found.url, found.secret) == ("https://x/y?token=s3cr3t", env["S"])
    assert "s3cr3t" not in repr(made)
    with pytest.raises(ConfigError) as caught:
        load(
            tmp_path, (f"{section}: {text}" if section == "webhook" else f"policy: {{verifier: {text}}}"), {"S": "s3c"}
        )
    assert "s3c" not in caught.value.message.replace(f"{section}.secret", "")


FOR_COMMANDS = {
    "a provider's key": ("upstream: {url: 'https://a.example/v1', api_key: '${NOT_SET}'}", True),
    "keys in a list": ("upstreams: [{name: a, url: 'https://a.example/v1', api_key: '${NOT_SET}'}]", True),
    "a webhook's secret": ("webhook: {url: 'https://a.example', secret: '${NOT_SET}'}", True),
    "a verifier's": ("policy: {verifier: {url: 'https://a.example', secret: '${NOT_SET}'}, mode: observe}", True),
    "a price": ("prices: {models: {'gpt-4.1*': {input: '${NOT_SET}', output: 1}}}", True),
    "the store": ("store: {url: '${NOT_SET}'}", False),
    "where operators connect": ("admin: {port: '${NOT_SET}'}", False),
    "a rule for calls": ("tools: {deny: ['${NOT_SET}']}", False),
    "wrong besides": ("upstream: {api_key: '${NOT_SET}'}\nstore: {nonsense: 1}", False),
}


@pytest.mark.parametrize("name", FOR_COMMANDS)
def test_a_command_does_without_the_provider_s_key(name: str, tmp_path: Path) -> None:
    """It only reaches the store; whoever types it need not have the environment of the proxy. `serve` needs all."""
    text, fine = FOR_COMMANDS[name]
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError):
        config.load(file, {})
    if fine:
        found, _ = config.load(file, {}, needed=NEEDED)
        assert found.policy.mode == ("observe" if "observe" in text else "enforce")
    else:
        with pytest.raises(ConfigError):
            config.load(file, {}, needed=NEEDED)


def _written(value: object) -> object:
    """A part of the configuration as somebody would write it into a file; what is absent by default is left out."""
    if isinstance(value, Triple):
        return [value.nudge, value.firm, value.cut]
    if isinstance(value, tuple):
        return [_written(one) for one in value]
    if isinstance(value, dict):
        return {name: _written(one) for name, one in value.items() if one is not None}
    kept = getattr(type(value), "model_fields", None)
    return value if kept is None else _written({name: getattr(value, name) for name in kept})


def test_every_default_can_be_written_out() -> None:
    """Whoever writes a default into the file, to change the line beside it, is not refused."""
    plain = config.build({})
    again = config.build(_written(plain))  # type: ignore[arg-type]

    assert again.policy_value() == plain.policy_value()
    assert again.rules_value() == plain.rules_value()
    assert again.price_table() == plain.price_table()


CAPTURE = {
    "NO_CONTENT": ("no_content", False),
    "SPAN_ONLY": ("span_only", True),
    "SPAN_AND_EVENT": ("span_and_event", True),
    "EVENT_ONLY": ("event_only", False),
    "true": ("span_only", True),
    "false": ("no_content", False),
    "": ("no_content", False),
}


@pytest.mark.parametrize(("said", "expected"), CAPTURE.items())
def test_the_variable_for_content_is_honoured(said: str, expected: tuple[str, bool]) -> None:
    env = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": said}
    found = config.load(None, env, {})[0]

    assert (found.telemetry.capture_content, found.telemetry.captures) == expected
    assert any("events are not sent" in one for one in found.warnings()) == ("event" in expected[0])
    assert config.load(None, env, {"telemetry.capture_content": "no_content"})[0].telemetry.captures is False


def test_a_pattern_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"telemetry\.redact.*is no regular expression"):
        load(tmp_path, "telemetry: {redact: ['(']}")


def test_what_is_read_again_stays_what_it_was(tmp_path: Path) -> None:
    """An empty file is the defaults only where it always was empty."""
    file = tmp_path / "c.yaml"
    read = config.reader(file, {}, {"listen.port": 7})
    file.write_text("# nothing yet\n")
    assert read()[0].auth.mode == "none"
    file.write_text("auth: keys\nupstream: {api_key: k}\n")
    assert (read()[0].auth.mode, read()[0].listen.port) == ("keys", 7)
    for text in ("", "# nothing any more\n", "{}"):
        file.write_text(text)
        with pytest.raises(ConfigError, match=r"c\.yaml is empty, and was not before"):
            read()
    file.write_text("auth: passthrough")
    assert read()[0].auth.mode == "passthrough"
    assert config.reader(None, {})()[1] == config.load(None, {})[1]


def test_what_can_be_read_once_is_not_read_again() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"auth: keys\nupstream: {api_key: k}\n")
    os.close(writing)
    path = Path(f"/dev/fd/{reading}")
    with pytest.raises(ConfigError, match=f"{path} is a pipe, no regular file"):
        config.reader(path, {})()
    assert config.load(path, {})[0].auth.mode == "keys"  # once, as `check` does
    os.close(reading)
