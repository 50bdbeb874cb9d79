"""The image: small, nobody's root, pinned, told to end by SIGTERM. That it can be built and run: tests/verify."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from guardproxy import config
from guardproxy.http.crew import DRAIN_SECONDS
from tests.deploy.dockerfile import DOCKERFILE, ROOT, command, copied, said, stages, variables, visible

LAST = stages()[-1]
EXAMPLE = DOCKERFILE.parent / "guardproxy.example.yaml"


def test_what_is_copied_is_there_and_is_in_the_context() -> None:
    sources = [source for stage in stages() for source, _ in copied(stage)]

    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [source for source in sources if not visible(source)] == []


def test_the_context_is_small() -> None:
    """And has no secrets, no tests, no virtual environments, nothing of git's."""
    kept = ["guardproxy/store/begin.lua", "guardproxy/replaying/page.html", "guardproxy/demo/run.py"]
    left = [".venv/bin/python", ".git/config", "tests/live.py", "deploy/compose.yaml", ".env", "grafana/runs.json"]
    left += ["guardproxy/__pycache__/cli.cpython-311.pyc"]

    assert [path for path in kept if not visible(path)] == []
    assert [path for path in left if visible(path)] == []


def test_nothing_but_the_environment_and_a_configuration_is_in_the_last_stage() -> None:
    assert said(LAST, "COPY")[0].startswith("--from=build /opt/guardproxy ")
    assert [target for _, target in copied(LAST)] == ["/etc/guardproxy/guardproxy.yaml"]
    assert not [line for line in said(LAST, "RUN") if re.search(r"\b(pip|apt-get|curl|wget)\b", line)]


def test_nobody_is_root() -> None:
    words = [word for word, _ in LAST]

    assert said(LAST, "USER") == ["10001:10001"]
    assert words.index("USER") > words.index("RUN")
    assert "--uid 10001" in said(LAST, "RUN")[0]


def test_both_stages_stand_on_one_exact_base() -> None:
    bases = {said(stage, "FROM")[0].split()[0] for stage in stages()}

    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", bases.pop())


def test_all_that_is_installed_has_one_version() -> None:
    pins = {}
    for line in (DOCKERFILE.parent / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pin = Requirement(line)
            pins[canonicalize_name(pin.name)] = next(iter(pin.specifier))
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    compiles = document["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["dependencies"]
    built_with = [*document["build-system"]["requires"], *compiles]
    wanted = map(Requirement, [*document["project"]["dependencies"], *built_with])

    assert variables(stages()[0])["PIP_CONSTRAINT"] == "constraints.txt"
    assert {pin.operator for pin in pins.values()} == {"=="}
    for one in wanted:
        assert canonicalize_name(one.name) in pins, "run: make constraints"
        assert pins[canonicalize_name(one.name)].version in one.specifier, "run: make constraints"


def test_the_first_process_is_ours_and_has_time_to_finish() -> None:
    """A shell as the first process would keep SIGTERM to itself."""
    assert command() == ["guardproxy", "serve", "--config", "/etc/guardproxy/guardproxy.yaml"]
    assert said(LAST, "STOPSIGNAL") == ["SIGTERM"]
    told = re.search(r"docker stop --time (\d+)", DOCKERFILE.read_text())
    assert told
    assert int(told[1]) > DRAIN_SECONDS + 10


def test_ports_folders_and_the_look_at_its_health_fit_the_configuration() -> None:
    tree, _ = config.load(EXAMPLE, {})
    (look,) = said(LAST, "HEALTHCHECK")
    words = json.loads(look.partition("CMD ")[2])

    assert {*said(LAST, "EXPOSE")[0].split()} == {str(tree.listen.port), str(tree.admin.port)}
    assert f"http://127.0.0.1:{tree.admin.port}/healthz" in words[-1]
    compile(words[-1], "healthcheck", "exec")
    home = re.search(r"--home-dir (\S+)", said(LAST, "RUN")[0])
    assert home
    assert PurePosixPath(variables(LAST)["XDG_DATA_HOME"]) / "guardproxy" == PurePosixPath(home[1])
