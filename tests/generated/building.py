"""Healthy runs of people's coding agents: files, tests, git, shells, deployments."""

from __future__ import annotations

from tests.generated.making import Run
from tests.generated.words import Words

Failure = tuple[str, str, str]
"""A failing test: file, name, what it says."""
TESTS = {"python": "pytest -q", "typescript": "npx jest", "go": "go test ./...", "rust": "cargo test"}
CHECKS = {"python": "mypy", "typescript": "npx tsc --noEmit", "go": "go vet ./...", "rust": "cargo check"}


def failure(words: Words) -> Failure:
    file = f"tests/test_{words.noun()}_{words.noun()}.{words.ext}"
    return file, f"test_{words.ident()}", f"expected {words.number(3)}, got {words.number(2)}"


def suite(words: Words, failing: list[Failure], total: int) -> str:
    """What a test runner prints; only the time differs between equal outcomes."""
    took = f"{words.rng.uniform(0.2, 9):.2f}s"
    bad = len(failing)
    if words.language == "python":
        rows = [f"FAILED {a}::{b} - AssertionError: {c}" for a, b, c in failing]
        head = "." * (total - bad) + "F" * bad
        tail = f"{bad} failed, {total - bad} passed in {took}" if bad else f"{total} passed in {took}"
    elif words.language == "typescript":
        rows = [f"FAIL {a}\n  ● {b}\n    {c}" for a, b, c in failing]
        head, tail = "", f"Tests: {bad} failed, {total - bad} passed, {total} total\nTime: {took}"
    elif words.language == "go":
        rows = [f"--- FAIL: {b} (0.0{words.rng.randint(0, 9)}s)\n    {a}:{len(b) * 3}: {c}" for a, b, c in failing]
        head, tail = "", f"FAIL\texample.com/{words.root.strip('/')}\t{took}" if bad else f"ok  \texample.com/x\t{took}"
    else:
        rows = [f"---- {b} stdout ----\nthread '{b}' panicked at {a}:\n{c}" for a, b, c in failing]
        state = "FAILED" if bad else "ok"
        head = f"running {total} tests"
        tail = f"test result: {state}. {total - bad} passed; {bad} failed; finished in {took}"
    return "\n".join([head, *rows, tail])


def tested(run: Run, failing: list[Failure], total: int) -> None:
    run.do(run.client.shell(TESTS[run.words.language], suite(run.words, failing, total), 1 if failing else 0))


def batch_edits(run: Run) -> None:
    """One change in each of 60 files; each call says the same of another file."""
    words, client = run.words, run.client
    paths = words.paths(60)
    old, new = words.ident(), words.ident()
    run.begin(f"Rename {old} to {new} in all 60 files. {words.sentence()}")
    run.do(client.grep(old, ".", [f"{one}:{words.number(2)}:  {old}()" for one in paths]))
    way = run.rng.choice(["read and edit", "edit", "shell", "parallel"])
    while paths:
        batch = [paths.pop() for _ in range(min(len(paths), run.rng.randint(2, 6) if way == "parallel" else 1))]
        if way == "read and edit":
            run.do(run.read(batch[0]))
        if way == "shell":
            run.do(client.shell(f"sed -i 's/{old}/{new}/g' {batch[0]}", ""))
        else:
            run.do(*[client.edit(one, f"{old}()", f"{new}()") for one in batch])
        run.maybe_slip(0.02)
    run.do(client.grep(old, ".", []))
    tested(run, [], 60)
    run.say(f"All 60 files are done. {words.sentence()}")


def test_driven(run: Run) -> None:
    """Failures get fewer; an edit that does not help is followed by at most one more."""
    words, client = run.words, run.client
    failing = [failure(words) for _ in range(run.rng.randint(4, 9))]
    total = len(failing) + run.rng.randint(5, 40)
    run.begin(f"Make the tests pass. {words.sentence()}")
    tested(run, failing, total)
    idle = 0
    while failing:
        path = run.rng.choice([failing[0][0], words.path()])
        if run.rng.random() < 0.7:
            run.do(run.read(path))
        run.do(run.change(path))
        if run.rng.random() < 0.2 and idle < 2:
            idle += 1
        else:
            idle = 0
            failing = failing[run.rng.randint(1, 2) :]
            if run.rng.random() < 0.1:
                failing.append(failure(words))
        tested(run, failing, total)
        run.maybe_slip()
    run.do(client.shell(CHECKS[words.language], "Success: no issues found"))
    run.say(words.prose(2))


def todo_list(run: Run) -> None:
    """A list whose steps are done one after the other, in a client that answers each update alike."""
    words, client = run.words, run.client
    steps = [f"{words.verb().title()} the {words.noun()} {words.noun()}" for _ in range(run.rng.randint(6, 12))]
    run.begin(f"Build this: {words.prose(3)}")
    for done in range(len(steps) + 1):
        states = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
        run.do(client.todo(list(zip(steps, states, strict=False))))
        for path in words.paths(run.rng.randint(1, 3)):
            run.do(client.write(path, "\n".join(words.code(1)))) if run.rng.random() < 0.5 else run.do(run.read(path))
            run.do(run.change(path))
            run.maybe_slip()
        if run.rng.random() < 0.5:
            tested(run, [], 10 + done * 2)
    run.say(words.prose(3))


def refactoring(run: Run) -> None:
    """A name searched again and again while its uses get fewer; the type checker's complaints, too."""
    words, client = run.words, run.client
    old, new = words.type_name(), words.type_name() + "V2"
    uses = words.paths(run.rng.randint(14, 28))
    run.begin(f"Replace {old} by {new} everywhere. {words.sentence()}")
    while True:
        run.do(client.grep(old, ".", [f"{one}:{3 + len(one)}: x: {old}" for one in uses]))
        if not uses:
            break
        for one in [uses.pop() for _ in range(min(len(uses), run.rng.randint(4, 8)))]:
            if run.rng.random() < 0.6:
                run.do(client.read(one, run.file(one), 1, run.rng.randint(5, 12)))
            run.do(run.change(one))
            run.maybe_slip()
        told = [f"{one}:{len(one)}: error: Name '{old}' is not defined" for one in uses]
        run.do(client.shell(CHECKS[words.language], "\n".join([*told, f"Found {len(told)} errors"]), 1 if told else 0))
    tested(run, [], 40)
    run.say(words.prose(2))


def git_work(run: Run) -> None:
    """Status, diff, add, commit for each change. Sometimes the status is asked twice without a change between."""
    words, client = run.words, run.client
    run.begin(f"Commit these changes one by one: {words.prose(3)}")
    clean = "On branch main\nnothing to commit, working tree clean"
    run.do(client.shell("git status", clean))
    for path in words.paths(run.rng.randint(5, 9)):
        run.do(run.read(path))
        run.do(run.change(path))
        dirty = f"On branch main\nChanges not staged for commit:\n\tmodified:   {path}"
        run.do(client.shell("git status", dirty))
        if run.rng.random() < 0.15:
            run.do(client.shell("git status", dirty))
        line = run.rng.choice(run.files[path])
        run.do(client.shell("git diff", f"diff --git a/{path} b/{path}\n@@ -7 +7 @@\n-{words.ident()}\n+{line}"))
        if run.rng.random() < 0.4:
            tested(run, [], 25)
        title = f"{words.verb().title()} {words.noun()} {words.noun()}"
        if run.rng.random() < 0.5:
            run.do(client.shell("git add -A", ""))
            run.do(client.shell(f'git commit -m "{title}"', f"[main {words.hexa(7)}] {title}\n 1 file changed"))
        else:
            told = f"[main {words.hexa(7)}] {title}\n 1 file changed"
            run.do(client.shell(f'git add {path} && git commit -m "{title}"', told))
        run.maybe_slip()
    log = "\n".join(f"{words.hexa(7)} {words.verb()} {words.noun()}" for _ in range(5))
    run.do(client.shell("git log --oneline -5", log), client.shell("git status", clean))
    run.do(
        client.shell(
            "git push", f"To example.com:{words.noun()}.git\n   {words.hexa(7)}..{words.hexa(7)}  main -> main"
        )
    )
    run.say(words.prose(2))


def exploring(run: Run) -> None:
    """A shell in which `ls` and `cat` come again after edits, and show what has changed."""
    words, client = run.words, run.client
    names = [one.rsplit("/", 1)[-1] for one in words.paths(4)]
    run.begin(f"Have a look around and tidy up. {words.sentence()}")
    run.do(client.shell("pwd", words.root))
    for _ in range(run.rng.randint(8, 14)):
        run.do(run.listing(names))
        name = run.rng.choice(names)
        run.do(run.read(name))
        what = run.rng.random()
        if what < 0.5:
            run.do(run.change(name))
            run.do(run.read(name))
        elif what < 0.8:
            names.append(words.path().rsplit("/", 1)[-1])
            run.do(client.write(names[-1], "\n".join(words.code(1))))
        else:
            run.do(client.shell(f"wc -l {name}", f"{len(run.files[name])} {name}"))
            module = words.noun()
            head = 'Traceback (most recent call last):\n  File "<string>", line 1, in <module>'
            told = f"{head}\nModuleNotFoundError: No module named '{module}'"
            run.do(client.shell(f"python3 -c 'import {module}'", told, 1))
        if run.rng.random() < 0.3:
            names.append(words.noun() + ".md")
        run.maybe_slip()
    run.say(words.prose(2))


def deploying(run: Run) -> None:
    """Build, push, apply, wait for the rollout, then many checks that all say 200."""
    words, client = run.words, run.client
    app, image = words.noun(), f"registry.example/{words.noun()}:{words.hexa(7)}"
    run.begin(f"Deploy {app} and verify it. {words.sentence()}")
    layers = "\n".join(f"#{n} [stage {n}] {words.verb()} {words.hexa(12)} done {n}.{n}s" for n in range(1, 9))
    run.do(client.shell(f"docker build -t {image} .", layers))
    run.do(client.shell(f"docker push {image}", f"latest: digest: sha256:{words.hexa(32)}"))
    run.do(client.shell(f"kubectl set image deploy/{app} {app}={image}", f"deployment.apps/{app} image updated"))
    replicas = run.rng.randint(3, 6)
    pods = [f"{app}-{words.hexa(9)}-{words.token(5).lower()}" for _ in range(replicas)]
    for ready in range(replicas + 1):
        rows = [
            f"{pod}  {int(n < ready)}/1  {'Running' if n < ready else 'Pending'}  0  {40 * ready + n}s"
            for n, pod in enumerate(pods)
        ]
        run.do(client.shell(f"kubectl get pods -l app={app}", "\n".join(rows)))
        if run.rng.random() < 0.5:
            run.do(client.wait(20))
    health = f"curl -s -o /dev/null -w '%{{http_code}}' https://{app}.example"
    for _ in range(run.rng.randint(1, 2)):
        run.do(client.shell(f"{health}/health", "503"))
    run.do(client.shell(f"kubectl logs deploy/{app} --tail=5", "\n".join(words.log_line() for _ in range(5))))
    run.do(client.shell(f"{health}/health", "200"))
    for _ in range(run.rng.randint(8, 14)):
        run.do(client.shell(f"{health}/{words.noun()}/{words.noun()}", "200"))
    run.say(words.prose(2))


def log_tailing(run: Run) -> None:
    """The same command shows the last lines of a log that grows; now and then nothing has come."""
    words, client = run.words, run.client
    log = [words.log_line() for _ in range(20)]
    name = f"/var/log/{words.noun()}.log"
    run.begin(f"Watch {name} while the migration runs and tell me when it is through. {words.sentence()}")
    way = run.rng.choice(["tail", "docker", "process"])
    call = words.token(6).lower()
    still = False
    for _ in range(run.rng.randint(15, 30)):
        fresh = (
            [] if run.rng.random() < 0.12 and not still else [words.log_line() for _ in range(run.rng.randint(1, 8))]
        )
        still = not fresh
        log += fresh
        if way == "process":
            run.do(
                (
                    "process",
                    {"action": "poll", "sessionId": call},
                    "\n".join(fresh) or "(no new output)\n\nProcess still running.",
                )
            )
        else:
            command = f"tail -n 12 {name}" if way == "tail" else f"docker logs --tail 12 {call}"
            run.do(client.shell(command, "\n".join(log[-12:])))
        if run.rng.random() < 0.4:
            run.do(client.wait(run.rng.choice([5, 10, 30])))
    run.say(f"It is through. {words.sentence()}")
