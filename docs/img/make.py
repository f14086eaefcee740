"""Seeds a server with jobs of every fate and takes pictures of its pages: `python docs/img/make.py [FOLDER [PAGE …]]`.

Needs Chromium and requirements-test.txt. Without FOLDER only the two pictures of the README are renewed; with it every page is
taken (or those that are named), in both themes, on a desktop and on a phone, with hostile text too. No worker runs: what is shown stands still.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from playwright.sync_api import sync_playwright
from werkzeug.serving import make_server

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import jobs.webhooks.models  # noqa: E402, F401  its tables belong to the schema
from app import create_app  # noqa: E402
from docs.img.seed import Seeder, callbacks, hostile, people, seed  # noqa: E402
from jobs import clock, doorbell, embedded_redis  # noqa: E402
from jobs import settings as settings_module  # noqa: E402
from jobs.artifacts.store import open_store  # noqa: E402
from jobs.core import access, models  # noqa: E402
from jobs.core.access import Role  # noqa: E402
from jobs.db import Database  # noqa: E402

CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


def shoot(page, target: Path, url: str, full=True) -> None:
    page.goto(url)
    page.wait_for_timeout(1000)
    page.screenshot(path=target, full_page=full)
    print(target, target.stat().st_size // 1000, "kB")


def for_readme(browser, base: str, state: dict, found: dict[str, int]) -> None:
    page = browser.new_context(
        storage_state=state, viewport={"width": 1240, "height": 900}, color_scheme="light", locale="en-GB"
    ).new_page()
    shoot(page, ROOT / "docs/img/overview.png", f"{base}/ui/", full=False)
    page.set_viewport_size({"width": 1240, "height": 780})
    shoot(page, ROOT / "docs/img/job.png", f"{base}/ui/jobs/{found['video']}", full=False)


def every_page(browser, base: str, state: dict, found: dict[str, int], everything: Path) -> None:
    everything.mkdir(parents=True, exist_ok=True)
    places = {
        "overview": "",
        "jobs": "jobs",
        "jobs-failed": "jobs?status=failed",
        "none": "jobs?q=nothing-like-it",
        "new": "new",
        "form": "new/video.transcode",
        "drill": "new/demo.drill",
        "types": "types",
        "endpoints": "endpoints",
        "endpoint": "endpoints/3",
        "keys": "keys",
        "audit": "audit",
        "settings": "settings",
        "confirm": "jobs/retry?all=1",
        "gone": "jobs/999999",
        **{name: f"jobs/{job_id}" for name, job_id in found.items()},
    }
    wanted = sys.argv[2:] or places
    for theme in ("light", "dark"):
        for size, width, height in (("desktop", 1360, 860), ("phone", 390, 800)):
            context = browser.new_context(
                storage_state=state,
                viewport={"width": width, "height": height},
                color_scheme=theme,
                locale="zh-CN" if (theme, size) == ("dark", "desktop") else "en-GB",
            )
            page = context.new_page()
            for name in wanted:
                path = places[name]
                shoot(page, everything / f"{name}-{size}-{theme}.png", f"{base}/ui/{path}")
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            print("wider than the screen by", wide) if wide > 0 else None
            context.close()
    page = browser.new_context(viewport={"width": 1360, "height": 860}).new_page()
    shoot(page, everything / "sign-in.png", f"{base}/ui/sign-in")
    wall = browser.new_context(
        storage_state=state, viewport={"width": 2560, "height": 1440}, color_scheme="dark"
    ).new_page()
    shoot(wall, everything / "wall.png", f"{base}/ui/", full=False)


def sign_in(browser, link: str) -> dict:
    page = browser.new_page()
    page.goto(link)
    page.click("main button")
    page.wait_for_url("**/ui/")
    return page.context.storage_state()


def announce(redis_url: str) -> None:
    """Workers give a sign of life, as those do that run: three at work and an idle one."""
    while not doorbell.Doorbell(redis_url).works():
        time.sleep(0.05)
    with doorbell.connect(redis_url) as client:
        for place in ("1.4711", "2.4711", "3.4711", "4.4711"):
            key, sign = f"rq:worker:render-{place}", clock.wire(clock.now())
            client.hset(key, mapping={"queues": "default", "last_heartbeat": sign, "birth": sign})
            client.sadd("rq:workers", key)


FONTS = (
    '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><include>/etc/fonts/fonts.conf</include>'
    + "".join(
        f'<match target="pattern"><test name="family"><string>{name}</string></test><edit name="family" mode="prepend" binding="strong">'
        "<string>Noto Sans CJK SC</string></edit></match>"
        for name in ("system-ui", "DejaVu Sans", "sans-serif")
    )
    + "</fontconfig>"
)


def main() -> None:
    everything = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    folder = Path(tempfile.mkdtemp(prefix="accepted-pictures-"))
    os.environ["ACCEPTED_TEST_CLOCK"] = str(folder / "clock")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    redis_url = embedded_redis.url(folder / "redis.sock")
    settings = settings_module.load(
        {},
        data_dir=str(folder / "data"),
        port=str(port),
        keepalive="200ms",
        test_clock=str(folder / "clock"),
        redis_url=redis_url,
    )
    settings.data_dir.mkdir()
    redis = subprocess.Popen(embedded_redis.command(folder / "redis.sock"), stdout=subprocess.DEVNULL)
    db = Database(settings)
    models.prepare(db, settings)
    seeder = Seeder(db, folder / "clock").at(0)
    found = seed(seeder, open_store(settings), settings)
    announce(redis_url)
    key = db.write(lambda tx: access.make_key(tx, "admin", Role.ADMIN))
    caller = access.authenticate(db.read(), key)
    token = db.write(lambda tx: access.make_sign_in_link(tx, caller.key_id))
    server = make_server("127.0.0.1", port, create_app(settings), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = settings.base_url
    (folder / "fonts.conf").write_text(FONTS)  # a bare machine has no system font worth the name
    os.environ["FONTCONFIG_FILE"] = str(folder / "fonts.conf")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM)
        state = sign_in(browser, f"{base}/ui/sign-in/{token}")
        for_readme(browser, base, state, found)
        if everything:
            found["hostile"] = hostile(seeder)
            callbacks(seeder, found["video"])
            people(seeder, found["video"])
            seeder.at(0)
            every_page(browser, base, state, found, everything)
        browser.close()
    redis.terminate()
    redis.wait()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # streams are still held open by the server's threads


if __name__ == "__main__":
    main()
