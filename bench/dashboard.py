"""What the dashboard costs with many jobs, and whether it stays smooth while they change.

    python bench/dashboard.py [ROWS]        default 100,000; needs Chromium; about three minutes

Two whole servers, one with 100 jobs and one with ROWS, ended over the last week. Prints per page, median of interleaved
rounds: the server's time and the full load in Chromium, and their ratio (the aim: at most 1.3, pages deep down included).
Then 50 changes a second for ten seconds before a page that is open, for Overview and for a list of 200 rows: the longest
task of the page's thread (the aim: none over 100 ms). Look at the ratios.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playwright.sync_api import Page, sync_playwright  # noqa: E402

from jobs import clock, settings  # noqa: E402
from jobs.core import models  # noqa: E402
from jobs.core.outcome import Failed, Succeeded  # noqa: E402
from jobs.db import Database  # noqa: E402
from jobs.errors import Problem  # noqa: E402
from tests.core import given  # noqa: E402
from tests.e2e.browsing import ARGUMENTS, link_for, press  # noqa: E402
from tests.e2e.traffic import Traffic  # noqa: E402
from tests.stack import Stack, wait_for  # noqa: E402

FEW, ROUNDS, LOADS = 100, 60, 25
A_SECOND, SECONDS = 50, 10
SMOOTH = """
    window.tasks = [];
    new PerformanceObserver(list => list.getEntries().forEach(entry => tasks.push(entry.duration))).observe({type: "longtask"});
"""


def prepared(folder: Path, rows: int) -> Stack:
    """A server, started, whose database holds so many jobs that ended over the last week, every second of them badly."""
    server = Stack(folder, workers="1", keepalive="15")
    server.data.mkdir(parents=True)
    configuration = settings.load(server.environment)
    db = Database(configuration)
    models.prepare(db, configuration)
    payload = json.dumps({"seconds": 1, "value": "nightly figures of the northern region"})
    well = given.settled(db, payload=payload, outcome=Succeeded('{"value":1}'))
    badly = given.settled(db, payload=payload, outcome=Failed(Problem("handler-error", "The connection was reset.")))
    week = [clock.after(-7 * 86400 * (1 - n / rows)) for n in range(rows)]

    def multiply(tx):
        names = [row.name for row in tx.all("SELECT name FROM pragma_table_info('jobs')")]
        tx.run("CREATE TEMP TABLE instants (n INTEGER PRIMARY KEY, at TEXT)")
        for start in range(0, rows, 500):
            piece = list(enumerate(week[start:start + 500], start + 3))
            values = {f"n{n}": n for n, _ in piece} | {f"at{n}": at for n, at in piece}
            tx.run("INSERT INTO instants VALUES " + ", ".join(f"(:n{n}, :at{n})" for n, _ in piece), **values)
        new = {"id": "n", "version": f"{badly.version} + n", "created_at": "at", "updated_at": "at", "started_at": "at", "finished_at": "at",
               "expires_at": "'2999-01-01T00:00:00.000Z'"}
        tx.run(f"INSERT INTO jobs ({', '.join(names)}) SELECT {', '.join(new.get(name, 'jobs.' + name) for name in names)} FROM instants "
               "JOIN jobs ON jobs.id = CASE WHEN n % 2 = 0 THEN :badly ELSE :well END", well=well.id, badly=badly.id)
        tx.run("DELETE FROM tallies")
        tx.run("INSERT INTO tallies SELECT queue, status, priority, owner, type, count(*) FROM jobs GROUP BY 1, 2, 3, 4, 5")
        tx.run("UPDATE meta SET value = value + :rows WHERE name = 'version'", rows=rows + 10)

    db.write(multiply)
    db.checkpoint()
    db.close()
    return server.start()


def pages(server: Stack, rows: int) -> dict[str, str]:
    """The pages that are timed, by name."""
    return {"Overview": "", "Overview, week": "?span=week", "Jobs": "jobs", "Jobs, failed": "jobs?status=failed",
            "Jobs, deep down": f"jobs?before={max(60, rows // 20)}", "region of Overview": "region"}


def server_times(servers: dict[int, Stack]) -> dict[int, dict[str, float]]:
    """Median seconds until a page's last byte."""
    took: dict[int, dict[str, list[float]]] = {rows: {} for rows in servers}
    sessions = {rows: server.admin for rows, server in servers.items()}
    for number in range(ROUNDS + 3):
        for rows, server in servers.items():
            for name, path in pages(server, rows).items():
                began = time.perf_counter()
                answer = sessions[rows].get(f"/ui/{path}")
                seconds = time.perf_counter() - began
                assert answer.status_code == 200, (path, answer.status_code)
                if number >= 3:
                    took[rows].setdefault(name, []).append(seconds)
    return {rows: {name: statistics.median(values) for name, values in found.items()} for rows, found in took.items()}


def load_times(tabs: dict[int, tuple[Page, Stack]]) -> dict[int, dict[str, float]]:
    """Median seconds until a page has been loaded, its scripts run."""
    took: dict[int, dict[str, list[float]]] = {rows: {} for rows in tabs}
    for number in range(LOADS + 2):
        for rows, (page, server) in tabs.items():
            for name, path in pages(server, rows).items():
                if name.startswith("region"):
                    continue
                page.goto(f"{server.url}/ui/{path}")
                page.wait_for_function("performance.getEntriesByType('navigation')[0].duration > 0")
                if number >= 2:
                    took[rows].setdefault(name, []).append(page.evaluate("performance.getEntriesByType('navigation')[0].duration") / 1000)
    return {rows: {name: statistics.median(values) for name, values in found.items()} for rows, found in took.items()}


def smoothness(page: Page, server: Stack, path: str) -> str:
    """What a page's thread was busy with while so many changes a second came in."""
    traffic = Traffic(server, "alice", at_once=30)
    page.add_init_script(SMOOTH)
    for _ in range(300):
        traffic.change()
    page.goto(f"{server.url}/ui/{path}")
    page.wait_for_selector("#live[data-state=live]")
    page.evaluate("setTimeout(() => { const end = performance.now() + 80; while (performance.now() < end); })")
    wait_for(lambda: page.evaluate("tasks.length"), what="the page to see a task that is long")
    page.evaluate("tasks.length = 0")
    began, number = time.monotonic(), 0
    while number < A_SECOND * SECONDS:
        traffic.change()
        number += 1
        page.wait_for_timeout(max(0.0, 1000 * (began + number / A_SECOND - time.monotonic())))
    lasted = time.monotonic() - began
    seen = page.evaluate("tasks")
    traffic.close()
    return f"{number / lasted:.0f} changes/s: {len(seen)} tasks over 50 ms, the longest {max(seen, default=0):.0f} ms"


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        servers = {number: prepared(Path(folder, str(number)), number) for number in (FEW, rows)}
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        try:
            tabs = {}
            for number, server in servers.items():
                page = browser.new_context().new_page()
                page.goto(link_for(server, server.key))
                press(page, "Sign in", page.get_by_role("main"))
                tabs[number] = page, server
            for title, found in (("server", server_times(servers)), ("load", load_times(tabs))):
                for name in found[rows]:
                    few, many = found[FEW][name], found[rows][name]
                    print(f"{title:7} {name:20} {1000 * few:7.1f} ms {1000 * many:7.1f} ms  ratio {many / few:.2f}", flush=True)
            page, server = tabs[rows]
            for name, path in (("Overview", ""), ("Jobs, 200 rows", "jobs?rows=200")):
                print(f"{name:20} {smoothness(page, server, path)}", flush=True)
        finally:
            browser.close()
            for server in servers.values():
                server.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
