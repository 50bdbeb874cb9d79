"""Healthy runs of other agents: jobs, pages, browsers, research, data, letters, customers."""

from __future__ import annotations

import json

from tests.generated.making import Json, Run
from tests.generated.words import Words


def polling(run: Run) -> None:
    """A job whose progress grows; it may stand still between two looks, not longer."""
    words, client = run.words, run.client
    job = f"job_{words.hexa(10)}"
    run.begin(f"Start the {words.noun()} {words.verb()} job and tell me when it is done. {words.sentence()}")
    tool = run.rng.choice(["get_job_status", "mcp__jobs__status", "check_export", "shell"])
    run.do((f"start_{words.noun()}", {"name": words.noun()}, json.dumps({"job_id": job, "status": "queued"})))
    if run.rng.random() < 0.3:  # no figure to see it by: a build that waits, runs, and is through
        for state in ("queued", "in_progress", "completed"):
            for _ in range(1 if state == "completed" else run.rng.randint(1, 5)):
                run.do((tool, {"job_id": job}, json.dumps({"job_id": job, "status": state})))
                if state != "completed":
                    run.do(client.wait(60))
        return run.say(words.prose(2))
    percent, still = 0, False
    while percent < 100:
        still = not still and run.rng.random() < 0.15
        percent = percent if still else min(100, percent + run.rng.randint(2, 9))
        state = {"job_id": job, "status": "running" if percent < 100 else "done", "progress": percent}
        if tool == "shell":
            run.do(client.shell(f"jobctl status {job}", f"{state['status']} {percent}% [{'#' * (percent // 5):20}]"))
        else:
            run.do((tool, {"job_id": job}, json.dumps(state)))
        if run.rng.random() < 0.4:
            run.do(client.wait(run.rng.choice([10, 15, 30])))
    run.do(("get_result", {"job_id": job}, json.dumps([words.row() for _ in range(3)])))
    return run.say(words.prose(2))


def paging(run: Run) -> None:
    """300 pages of a list, by page, offset or cursor; sometimes a page is asked again after a 429."""
    words = run.words
    way = run.rng.choice(["page", "offset", "cursor"])
    tool = run.rng.choice([f"list_{words.noun()}s", "mcp__crm__list_records", "http_get", f"get_{words.noun()}_page"])
    run.begin(f"Go through all {words.noun()}s and sum up the totals. {words.sentence()}")
    cursor = words.token(12)
    run.chat = min(run.chat, 0.1)
    for page in range(1, 301):
        asked: Json = {"page": {"page": page, "per_page": 3}, "offset": {"offset": (page - 1) * 3, "limit": 3}}.get(
            way, {"cursor": cursor}
        )
        if run.rng.random() < 0.01:
            run.do((tool, asked, "Error: 429 Too Many Requests"))
        cursor = words.token(12)
        told: Json = {"items": [words.row() for _ in range(3)]}
        if way == "cursor":
            told["next_cursor"] = cursor if page < 300 else None
        run.do((tool, asked, json.dumps(told)))
    run.say(words.prose(1))


def picture(words: Words) -> Json:
    url = f"data:image/png;base64,iVBORw0KGgo{words.token(160)}"
    return {"type": "image_url", "image_url": {"url": url}}


def on_screen(run: Run) -> None:
    """A screen that is worked by mouse and keys: each action answers with a picture and nothing else."""
    words, rng = run.words, run.rng
    run.begin(f"Open the {words.noun()} settings and {words.verb()} the {words.noun()}.")
    for _ in range(rng.randint(25, 45)):
        place = [rng.randint(20, 1200), rng.randint(20, 760)]
        asked = rng.choice(
            [
                {"action": "screenshot"},
                {"action": "wait", "duration": 2},
                {"action": "left_click", "coordinate": place},
                {"action": "scroll", "coordinate": [640, 400], "scroll_direction": "down", "scroll_amount": 5},
                {"action": "key", "text": rng.choice(["Tab", "Return", "Down"])},
                {"action": "type", "text": words.noun()},
            ]
        )
        run.do(("computer", asked, [picture(words)]))
    run.say(words.prose(1))


def browsing(run: Run) -> None:
    """A browser: pages, clicks, waits, and screenshots as images."""
    words, rng = run.words, run.rng
    prefix = rng.choice(["browser_", "mcp__playwright__browser_", ""])
    run.begin(f"Find and book the {words.adjective()} {words.noun()} on {words.url()}.")

    def page() -> str:
        items = "\n".join(
            f'- {rng.choice(["link", "button", "textbox"])} "{words.noun()} {words.noun()}" [ref=e{n}]'
            for n in range(8)
        )
        return f"### Page state\n- Page URL: {words.url()}\n- Page Title: {words.noun()} {words.noun()}\n{items}"

    for _ in range(rng.randint(8, 14)):
        run.do((f"{prefix}navigate", {"url": words.url()}, page()))
        for _ in range(rng.randint(1, 4)):
            what = rng.randrange(5)
            ref = f"e{rng.randrange(8)}"
            if what == 0:
                run.do((f"{prefix}wait_for", {"time": 2}, "Waited for 2 seconds"))
                run.do((f"{prefix}snapshot", {}, page()))
            elif what == 1:
                run.do((f"{prefix}type", {"ref": ref, "text": words.noun()}, f"Typed into {ref}"))
            elif what == 2:
                told = [{"type": "text", "text": "Took the viewport screenshot"}, picture(words)]
                run.do((f"{prefix}take_screenshot", {}, told))
            else:
                run.do((f"{prefix}click", {"element": words.noun(), "ref": ref}, page()))
        if rng.random() < 0.1:
            run.do(
                (
                    f"{prefix}click",
                    {"element": words.noun(), "ref": "e99"},
                    "Error: Ref e99 not found in the current page snapshot",
                )
            )
        run.do((f"{prefix}snapshot", {}, page()))
    run.say(words.prose(2))


def fan_out(run: Run) -> None:
    """Sub-agents, several at once; some in the background, asked once or twice whether they are done."""
    words, client, rng = run.words, run.client, run.rng
    run.begin(f"Look into all of this: {words.prose(4)}")
    for _ in range(rng.randint(3, 6)):
        count = rng.randint(2, 5)
        if rng.random() < 0.6:
            ops = [client.agent(words.sentence()[:30], words.prose(3), words.prose(8)) for _ in range(count)]
            run.do(*ops)
        else:
            names = [f"agent_{words.hexa(6)}" for _ in range(count)]
            run.do(*[("spawn_agent", {"message": words.prose(2)}, json.dumps({"agent_id": one})) for one in names])
            for _ in range(rng.randint(1, 2)):
                run.do(
                    (
                        "wait_agent",
                        {"ids": names, "timeout_ms": 60000},
                        json.dumps({"status": "running", "timed_out": True}),
                    )
                )
            for one in names:
                run.do(
                    (
                        "wait_agent",
                        {"ids": [one], "timeout_ms": 60000},
                        json.dumps({one: {"completed": words.prose(5)}}),
                    )
                )
        for path in words.paths(rng.randint(0, 3)):
            run.do(run.read(path))
            run.maybe_slip()
    run.say(words.prose(4))


def long_chat(run: Run) -> None:
    """A person and an assistant talk; many of the person's words are short and come again."""
    words, rng = run.words, run.rng
    run.begin(words.sentence())
    story = rng.random() < 0.4
    for _ in range(rng.randint(30, 60)):
        if rng.random() < 0.2 and not story:
            run.do((f"lookup_{words.noun()}", {"q": words.noun()}, json.dumps(words.row())))
        run.say(words.prose(rng.randint(1, 6)))
        short = rng.choice(["ok", "thanks", "go on", "continue", "yes", "next", "and then?"])
        run.user(
            "continue"
            if story and rng.random() < 0.8
            else short
            if rng.random() < 0.4
            else words.prose(rng.randint(1, 2))
        )
    run.say(words.prose(2))


def backoff(run: Run) -> None:
    """Calls that fail for a while: tried again after growing waits, two to four times, then it works."""
    words, client, rng = run.words, run.client, run.rng
    error = rng.choice(
        ["503 Service Unavailable", "429 Too Many Requests", "connect ETIMEDOUT 10.0.0.7:443", "502 Bad Gateway"]
    )
    run.begin(f"Upload all parts of the {words.noun()} {words.noun()}. {words.sentence()}")
    for part in range(1, rng.randint(12, 20)):
        asked = {"method": "PUT", "url": f"https://{words.noun()}.example/parts/{part}", "checksum": words.hexa(16)}
        if part == 4 or rng.random() < 0.12:
            for wait in (5, 15, 45, 120)[: rng.randint(2, 4)]:
                run.do(("http_request", asked, f"Error: {error}"))
                run.do(client.wait(wait))
        run.do(("http_request", asked, json.dumps({"status": 200, "etag": words.hexa(16), "part": part})))
    run.say(words.prose(1))


def data_pipeline(run: Run) -> None:
    """Partitions loaded, checked and repaired one by one."""
    words, client, rng = run.words, run.client, run.rng
    table = f"{words.noun()}_{words.noun()}"
    script = f"etl/{table}.py"
    run.begin(f"Load the partitions of {table} and validate them. {words.sentence()}")
    run.do(run.read(script))
    for day in range(1, rng.randint(10, 18)):
        date = f"2025-03-{day:02}"
        command = f"python {script} --date {date}"
        if rng.random() < 0.2:
            run.do(client.shell(command, f"KeyError: '{words.noun()}' in partition {date}", 1))
            run.do(
                client.shell(
                    f"head -3 raw/{date}.csv", f"id,{words.noun()},{words.noun()}\n{words.number()},{words.noun()},1"
                )
            )
            run.do(run.change(script))
        rows = words.number(5)
        run.do(client.shell(command, f"read {rows + day} rows\nwrote {rows} rows to {table}/{date}.parquet"))
        run.do(client.shell(f"python check.py {table} {date}", f"rows={rows} nulls={rng.randint(0, 9)} OK"))
    run.do(client.shell(f"python report.py {table}", json.dumps([words.row() for _ in range(4)])))
    run.say(words.prose(2))


def research(run: Run) -> None:
    """Many searches in new words; some find nothing, at most two in a row. A page may be read again later."""
    words, client, rng = run.words, run.client, run.rng
    topic = f"{words.adjective()} {words.noun()}"
    run.begin(f"Write a report about the {topic}. {words.prose(2)}")
    dry, read = 0, []
    for _ in range(rng.randint(12, 25)):
        query = " ".join(
            [
                topic,
                words.adjective(),
                words.noun(),
                words.verb(),
                rng.choice(["2024", "2025", "review", "statistics", ""]),
            ]
        )
        dry = dry + 1 if rng.random() < 0.2 and dry < 2 else 0
        hits = [] if dry else [(words.sentence(), words.url(), words.prose(2)) for _ in range(rng.randint(2, 4))]
        run.do(client.search(query.strip(), hits))
        for _, url, _ in hits[: rng.randint(0, 2)]:
            op = client.fetch(url, "Error: 403 Forbidden" if rng.random() < 0.1 else words.prose(8))
            run.do(op)
            read.append(op)
        if read and rng.random() < 0.1:
            run.do(read.pop(rng.randrange(len(read))))  # looked at once more; nobody reads one page five times
        if rng.random() < 0.15:
            run.do(client.write("notes.md", words.prose(8)))
    run.do(client.write("report.md", words.prose(15)))
    run.say(words.prose(3))


def database(run: Run) -> None:
    """Tables described, questions asked; a wrong column put right, an empty answer now and then."""
    words, rng = run.words, run.rng
    tool, key = rng.choice(
        [("query", "sql"), ("execute_sql", "query"), ("mcp__postgres__query", "sql"), ("run_sql", "statement")]
    )
    tables = [f"{words.noun()}_{words.noun()}s" for _ in range(rng.randint(4, 8))]
    run.begin(f"Which {words.noun()} sold best? {words.sentence()}")
    run.do(("list_tables", {}, json.dumps(tables)))

    def ask(sql: str, told: str) -> None:
        run.do((tool, {key: sql}, told))

    for table in tables:
        columns = {words.noun(): rng.choice(["integer", "text", "timestamp"]) for _ in range(5)}
        first, *rest = columns
        run.do(("describe_table", {"table": table}, json.dumps(columns)))
        ask(f"SELECT count(*) FROM {table}", json.dumps([{"count": words.number(5)}]))
        if rng.random() < 0.3:
            ask(f"SELECT {first}_id FROM {table} LIMIT 5", f'ERROR: column "{first}_id" does not exist')
            ask(f"SELECT {first} FROM {table} LIMIT 5", json.dumps([{first: words.noun()} for _ in range(5)]))
        for column in rest[: rng.randint(1, 4)]:
            sql = f"SELECT {column}, sum({first}) FROM {table} WHERE {column} = '{words.noun()}' GROUP BY 1"
            ask(
                sql,
                "[]"
                if rng.random() < 0.15
                else json.dumps([{column: words.noun(), "sum": words.number(4)} for _ in range(3)]),
            )
    run.say(words.prose(2))


def letters(run: Run) -> None:
    """A box of letters or tickets: each read, then answered, labelled or put away, with one and the same receipt."""
    words, rng = run.words, run.rng
    thing = rng.choice(["email", "ticket", "message"])
    run.begin(f"Work through my {thing}s. {words.sentence()}")
    for page in range(1, rng.randint(3, 5)):
        ids = [words.token(12) for _ in range(10)]
        heads = [{"id": one, "from": words.name(), "subject": words.sentence()} for one in ids]
        run.do((f"list_{thing}s", {"page": page, "unread": True}, json.dumps(heads)))
        put_away = []
        for one in ids:
            run.do((f"get_{thing}", {f"{thing}_id": one}, words.prose(4)))
            what = rng.random()
            if what < 0.4:
                run.do((f"send_{thing}_reply", {f"{thing}_id": one, "body": words.prose(2)}, '{"status": "sent"}'))
            elif what < 0.7:
                label = rng.choice(["later", "bills", "people", "spam"])
                run.do((f"label_{thing}", {f"{thing}_id": one, "label": label}, '{"ok": true}'))
            else:
                put_away.append((f"archive_{thing}", {f"{thing}_id": one}, '{"ok": true}'))
        if put_away:
            run.do(*put_away)
    run.say(words.prose(2))


def monitoring(run: Run) -> None:
    """A person asked for a look every few minutes; the state is well most of the time. Most services tell numbers, too,
    which move; some say `healthy` and no more, and that is what the person wants to hear each time.
    """
    words, client, rng = run.words, run.client, run.rng
    app = f"{words.noun()}-{words.noun()}"
    run.begin(f"Check {app} every five minutes for the next hours and tell me if anything is wrong.")
    shell = rng.random() < 0.5
    still = rng.random() < 0.25
    uptime, served = words.number(5), words.number(6)
    for _ in range(rng.randint(12, 24)):
        uptime, served = uptime + 300 + rng.randint(0, 3), served + rng.randint(100, 4000)
        state = {
            "status": "ok",
            "uptime_s": uptime,
            "requests": served,
            "p95_ms": rng.randint(60, 400),
            "at": words.stamp(300),
        }
        if rng.random() < 0.1:
            state["status"], state["warning"] = "degraded", words.sentence()
        told = "healthy" if still else json.dumps(state)
        run.do(
            client.shell(f"curl -s https://{app}.example/health", told)
            if shell
            else ("get_health", {"service": app}, told)
        )
        run.do(client.wait(300))
    run.say(words.prose(1))


def translating(run: Run) -> None:
    """Many strings set in another language, each acknowledged alike; a lost placeholder is put right."""
    words, rng = run.words, run.rng
    language = rng.choice(["de", "fr", "pt-BR", "ja", "nl"])
    tool = rng.choice(["set_translation", "update_string", "mcp__i18n__put", "save_translation"])
    run.begin(f"Translate all strings of the {words.noun()} app to {language}.")
    keys = [f"{words.noun()}.{words.noun()}.{words.verb()}_{number}" for number in range(rng.randint(60, 100))]
    run.do(("list_strings", {"missing": language}, json.dumps({key: words.sentence() for key in keys})))
    while keys:
        batch = [keys.pop() for _ in range(min(len(keys), rng.choice([1, 1, 1, 2, 5])))]
        if rng.random() < 0.05:
            told = f"Error: placeholder {{{words.noun()}}} is missing"
            run.do((tool, {"lang": language, "key": batch[0], "value": words.sentence()}, told))
        run.do(*[(tool, {"lang": language, "key": key, "value": words.sentence()}, '{"ok": true}') for key in batch])
    run.do(("list_strings", {"missing": language}, "{}"))
    run.say(words.prose(1))


def order(words: Words, number: str) -> str:
    """What is known of an order."""
    state = words.rng.choice(["delivered", "pending", "processed", "cancelled"])
    return json.dumps(
        {"order_id": number, "status": state, "items": [words.row() for _ in range(2)], "city": words.name()}
    )


def customers(run: Run) -> None:
    """Customers write, and their orders are looked up, one id after the other; a mistyped id is asked again."""
    words, rng = run.words, run.rng
    run.begin(f"Hello, I am {words.name()}. {words.sentence()}")
    for _ in range(rng.randint(3, 6)):
        user = f"{words.name().lower()}_{words.name().lower()}_{words.number(4)}"
        run.say("Could you please give me your user id?")
        run.user(f"It is {user}.")
        orders = [f"#W{words.number(7)}" for _ in range(rng.randint(2, 6))]
        run.do(("get_user_details", {"user_id": user}, json.dumps({"user_id": user, "orders": orders})))
        if rng.random() < 0.3:
            run.do(("get_order_details", {"order_id": orders[0][1:]}, "Error: order not found"))
        for one in orders:
            run.do(("get_order_details", {"order_id": one}, order(words, one)))
        if rng.random() < 0.3:
            run.do(("get_user_details", {"user_id": user}, json.dumps({"user_id": user, "orders": orders})))
        run.say(f"{words.prose(2)} Shall I go on? (yes/no)")
        run.user(rng.choice(["yes", f"Yes, please. {words.sentence()}"]))
        what = rng.choice(["cancel_pending_order", "return_delivered_order_items", "modify_pending_order_address"])
        run.do((what, {"order_id": orders[-1], "reason": words.sentence()}, order(words, orders[-1])))
        run.say(f"Done. {words.sentence()}")
        run.user(f"Thank you. My friend {words.name()} needs help, too: {words.sentence()}")
    run.say(words.prose(1))
