"""The command line: one clear line for what is wrong, and the right exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from guardproxy import __version__, cli
from guardproxy.core.detectors import RULES
from guardproxy.store import embedded


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        code = cli.main(arguments)
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_BASE_URL", "GUARDPROXY_SECRET", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))


WRONG = {
    "nothing": ((), "required: COMMAND"),
    "unknown command": (("sevre",), "invalid choice: 'sevre'"),
    "unknown option": (("serve", "--prot", "1"), "unrecognized arguments: --prot"),
    "port is no number": (("serve", "--port", "x"), "invalid int value: 'x'"),
    "port out of range": (("serve", "--port", "70000"), "listen.port: input should be less than"),
    "no workers": (("serve", "--workers", "0"), "listen.workers: "),
    "upstream is no URL": (("serve", "--upstream", "nowhere"), "upstream.url: must be a URL"),
    "no such config": (("serve", "--config", "/nowhere.yaml"), "cannot read /nowhere.yaml: No such file"),
    "serve out of a device": (("serve", "--config", "/dev/null"), "/dev/null is a device, no regular file"),
    "calibrate by a device": (("calibrate", "x", "--config", "/dev/null"), "/dev/null is a device, no regular file"),
    "calibrate of a device": (("calibrate", "/dev/null"), "/dev/null is a device, no regular file"),
    "replay of a device": (("replay", "/dev/null"), "/dev/null is a device, no regular file"),
    "replay of what is piped": (("replay", "-"), "give a FILE"),
    "check without a file": (("check",), "required: FILE"),
    "check of nothing": (("check", "/nowhere.yaml"), "cannot read /nowhere.yaml"),
    "check of a folder": (("check", "/"), "cannot read /: Is a directory"),
    "replay of nothing": (("replay", "/nowhere.jsonl"), "cannot read /nowhere.jsonl"),
    "replay against nothing": (("replay", "x", "--compare", "/nowhere.yaml"), "cannot read /nowhere.yaml"),
    "page in no folder": (("replay", "x", "--html", "/nowhere/a.html"), "cannot write /nowhere/a.html: its folder"),
    "no such preset": (("list", "--preset", "mild"), "invalid choice: 'mild'"),
    "replay of no labels": (("replay", "x", "--labels", "/nowhere.jsonl"), "cannot read /nowhere.jsonl"),
    "labels and another": (("replay", "x", "--labels", "l", "--compare", "c"), "--compare and --labels: one at a time"),
    "a false alarm of nothing": (("false-alarm",), "required: SESSION"),
    "a time that looks like an option": (("false-alarm", "s", "--for", "-3d"), "--for: expected one argument"),
    "export and revoke": (("false-alarms", "--export", "f", "--revoke", "l"), "not allowed with argument"),
    "approvals of what": (("approvals",), "required: COMMAND"),
    "sessions of what": (("sessions",), "required: COMMAND"),
    "panic elsewhere": (("panic", "on", "--admin", "ftp://x"), "must be a URL such as"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG.keys())
def test_wrong_use_is_exit_code_2(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    code, out, err = run(capsys, *arguments)

    assert code == 2
    assert words in err
    assert "Traceback" not in err
    assert out == ""


def test_upstream_is_ourselves(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8787/v1")
    code, _, err = run(capsys, "serve")

    assert (code, err.count("\n")) == (2, 1)
    assert "is this proxy itself" in err


def test_failure_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "panic", "on", "--admin", "http://127.0.0.1:9")

    assert code == 1
    assert err == "guardproxy: no proxy answers at http://127.0.0.1:9 (Connection refused)\n"
    assert err.count("\n") == 1


def test_trace_of_an_unknown_session(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    embedded.start(tmp_path / "data").stop()
    code, out, err = run(capsys, "trace", "nobody", "--data-dir", str(tmp_path / "data"))

    assert (code, out) == (1, "")
    told = "it has none at all; that is org default, another is asked with --org NAME (?org=NAME in the admin API) "
    told += f"(the store in {tmp_path / 'data'} was asked; that of another proxy is reached with "
    assert err == f"guardproxy: the store has no session 'nobody'; {told}its --config FILE or --data-dir DIR)\n"


def test_trace_prints_commands_that_reach_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[tuple[str, ...]] = []
    monkeypatch.setattr("guardproxy.http.trace.show", lambda _config, *words: told.append(words))
    assert cli.main(["trace", "s", "--org", "acme", "--data-dir", str(tmp_path)]) == 0
    assert told == [("acme", "s", f" --data-dir {tmp_path} --org acme")]


@pytest.mark.parametrize("command", [["trace", "s"], ["false-alarm", "s"], ["false-alarms"]], ids=lambda one: one[0])
def test_looking_makes_no_data_directory(
    command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, *command, "--data-dir", str(tmp_path / "data"))

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"the data directory {tmp_path / 'data'} does not exist" in err
    assert not list(tmp_path.iterdir())


def test_check(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    (tmp_path / "prices.json").write_text('{"m": {"input_cost_per_token": -1}}')
    file.write_text("policy: {profile: qa, detectors: {cycle: {enabled: false}}}\nprices: {file: prices.json}")
    code, out, err = run(capsys, "check", str(file))

    assert (code, err) == (0, "")
    assert f"{len(RULES) - 1} detectors" in out
    assert "limit of a request span: turns 8" in out
    assert "prices.file: the entry 'm': input_cost_per_token is -1 dollars per token; it is not used" in out


def test_check_of_several_upstreams(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "upstreams: [{name: a, url: 'http://a/v1', api_key: s3cr3t, models: ['gpt-*', 'gpt-4*']}, "
        "{name: b, url: 'http://b/v1', api_key: s3cr3t}]"
    )
    code, out, err = run(capsys, "check", str(file))

    assert (code, err) == (0, "")
    assert "upstreams a http://a/v1, b http://b/v1" in out
    assert out.count("warning: ") == 1
    assert "upstreams.a.models: 'gpt-4*' can never match: 'gpt-*' stands before it and takes all of it" in out
    assert "s3cr3t" not in out


IN_FORCE = """
policy:
  arguments: {mode: enforce}
  hygiene: {truncate: {mode: enforce}, errors: {mode: off}, empty: {mode: observe}}
  completion: {required_tools: {tools: [run_tests]}, evidence: {mode: off, pattern: x}}
  final: {hold: true, on_failure: cut}
  approvals: {way: hold, hold_seconds: 30}
  on_budget: pause
  checkpoints: {enabled: true}
  verifier: {url: "https://v.example:8443/x?token=s3cr3t", secret: s3cr3t-and-long-enough, fail: closed}
tools:
  deny: ["drop_*", {tool: bash, args: {command: "rm *"}, paths: [/etc, ~/.ssh]}]
  approval: [send_*]
  human: [ask_human]
  later: [job]
  final: [finish]
  deadlines: {bash: 60}
webhook: {url: "https://u:s3cr3t@h.example/hook/s3cr3t", secret: s3cr3t-and-long-enough}
"""

TOLD = (
    "refuse: enforce",
    "arguments: enforce, asked again 2 times at most",
    "tools.deny: drop_*, bash(command=rm *, paths=/etc ~/.ssh) (enforce)",
    "tools.approval: send_* (enforce)",
    "tools.human: ask_human (enforce)",
    "tools.later: job",
    "tools.final: finish",
    "tools.deadlines: bash 1 min",
    "(calls that an agent writes into its text, such as Thought/Action, are reported, but not held by these)",
    "approvals: the request is held for 30 s; undecided after 1 d the call is denied",
    "hygiene.empty: observe",
    "hygiene.truncate: enforce",
    "completion.required_tools: enforce",
    "verifier: https://v.example:8443 (enforce, fails closed)",
    "final answers: held, sent back 2 times at most, then: cut",
    "on_budget: pause",
    "checkpoints: up to 1,024 KB, for 1 d",
    "webhook: https://h.example",
)


def test_check_says_what_is_in_force(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """All of it, nothing that is off, and no secret."""
    file = tmp_path / "c.yaml"
    file.write_text(IN_FORCE)
    code, out, err = run(capsys, "check", str(file))
    lines = [line.strip() for line in out.splitlines()[1:]]

    assert (code, err) == (0, "")
    assert sorted(line for line in lines if not line.startswith("limit of a ")) == sorted(TOLD)
    assert "s3cr3t" not in out


def test_check_of_an_observing_policy(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(IN_FORCE.replace("policy:\n", "policy:\n  mode: observe\n", 1))
    _, out, _ = run(capsys, "check", str(file))

    assert "enforce" not in out
    assert "tools.deny: drop_*, bash(command=rm *, paths=/etc ~/.ssh) (observe)" in out


CHECKED = {
    "nothing": ("", ["refuse: enforce"]),
    "held for nothing": (
        "final: {hold: true}",
        ["refuse: enforce", "final.hold: nothing is held, since no check is set (policy.completion, policy.verifier)"],
    ),
    "reported": (
        "completion: {required_tools: {tools: [a]}}",
        [
            "refuse: enforce",
            "completion.required_tools: enforce",
            "final answers: handed on at once; what fails is reported",
        ],
    ),
    "handed over": ("on_cut: pause", ["refuse: enforce", "on_cut: pause"]),
    "not refused": ("refuse: off", ["refuse: off"]),
}


@pytest.mark.parametrize("name", CHECKED)
def test_check_tells_no_more_than_there_is(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    policy, expected = CHECKED[name]
    file = tmp_path / "c.yaml"
    file.write_text(f"policy: {{profile: none, {policy}}}")
    _, out, _ = run(capsys, "check", str(file))

    assert [line.strip() for line in out.splitlines()[1:]] == expected


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "list")

    assert code == 0
    for rule in RULES:
        assert f"\n{rule} " in f"\n{out}"
    assert "triple=[3, 4, 6]" in out


def test_list_of_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    told = {name: run(capsys, "list", "--preset", name)[1] for name in cli.PRESETS}

    assert told["balanced"] == run(capsys, "list")[1]
    assert "triple=[2, 3, 4], longest=6" in told["strict"]
    assert "triple=[4, 6, 8], longest=6" in told["patient"]


def test_replay_compares(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The other configuration is read whole: its preset, and its knowledge about tools."""
    made = {"type": "function", "function": {"name": "look", "arguments": "{}"}}
    turn = [{"role": "assistant", "tool_calls": [made]}, {"role": "tool", "content": "x"}]
    runs, other, page = tmp_path / "runs.jsonl", tmp_path / "other.yaml", tmp_path / "page.html"
    runs.write_text(json.dumps({"id": "a", "messages": [{"role": "user", "content": "go"}, *turn * 4]}))
    other.write_text("policy: {preset: patient}\ntools: {think_like: [look]}")
    code, out, err = run(capsys, "replay", str(runs), "--compare", str(other), "--html", str(page))

    assert (code, err) == (0, "")
    assert f"under {other}: spoken to 1 -> 0" in out
    assert page.stat().st_size > 1000


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"guardproxy {__version__}\n", "")


def test_options_are_paths_in_the_configuration() -> None:
    given = Namespace(host="::1", port=0, admin_port=1, workers=None, upstream="http://u", data_dir="d", config=None)

    assert cli.overrides(given) == {
        "listen.host": "::1",
        "listen.port": 0,
        "admin.port": 1,
        "upstream.url": "http://u",
        "store.data_dir": "d",
    }


def test_reader_that_leaves() -> None:
    """`guardproxy list | head -1` ends quietly."""
    command = f"{sys.executable} -m guardproxy list | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=True)

    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
