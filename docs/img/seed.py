"""Jobs of every fate, made through the core, each at its own moment in the past: for pictures and for looking at pages."""

import json
import subprocess
import tempfile
from datetime import timedelta
from pathlib import Path

from jobs import clock
from jobs.artifacts import publish
from jobs.connections import Unreachable
from jobs.core import access, audit, claim, journal, lifecycle, submission
from jobs.core.access import Role
from jobs.core.audit import Act, Actor, Door
from jobs.core.outcome import Again, Cancelled, Failed, Succeeded
from jobs.core.states import Priority
from jobs.core.submission import Submission
from jobs.db import Database
from jobs.errors import Problem
from jobs.targets import Answer
from jobs.webhooks import delivery, log, outbox, receivers

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)> \u202egnp.exe \x00\x07 ' \" &amp; javascript:alert(3) "
    + "ﷺ" * 8
)
LONG = "二〇二六年秋季新品发布会主会场全程录像（含中英双语字幕与幕后花絮）最终审定版第十七次修订.mov"


class Seeder:
    """Makes jobs through the core, each at its own moment in the past."""

    def __init__(self, db: Database, clock_file: Path):
        self.db, self.clock_file = db, clock_file

    def at(self, minutes_ago: float) -> "Seeder":
        self.clock_file.write_text(str(-60 * minutes_ago))
        return self

    def submit(self, type_name="video.transcode", payload=None, owner="media", **more) -> int:
        asked = self.asked(type_name, payload, owner, **more)
        return self.db.write(lambda tx: submission.accept(tx, asked)).job.id

    def asked(self, type_name="video.transcode", payload=None, owner="media", **more) -> Submission:
        payload = (
            {"sourceUrl": "https://example.org/holiday.mov", "transcode": ["1080p", "720p"]}
            if payload is None
            else payload
        )
        collection = "videos" if type_name == "video.transcode" else None
        return Submission(
            type=type_name,
            owner=owner,
            queue="default",
            payload=json.dumps(payload, ensure_ascii=False),
            timeout=3600,
            retention=30 * 86400,
            max_attempts=3,
            start_within=604800,
            collection=collection,
            resource_retention=90 * 86400,
            resource_fields=json.dumps({"sourceUrl": str(payload.get("sourceUrl", ""))}),
            **more,
        )

    def start(self, worker="render-1.4711") -> tuple[int, int]:
        row = self.db.write(lambda tx: claim.claim_next(tx, "default", worker))
        return row.id, row.attempt

    def report(self, job, progress, stage=None, eta=None):
        eta = clock.after(eta) if eta else None
        self.db.write(lambda tx: lifecycle.report(tx, *job, progress, stage, eta))

    def log(self, job, *lines):
        self.db.write(lambda tx: journal.write(tx, *job, [(clock.wire(clock.now()), line) for line in lines]))

    def settle(self, job, outcome):
        return self.db.write(lambda tx: lifecycle.settle(tx, *job, outcome))


def history(seeder: Seeder, number=5000, hours=168) -> None:
    """So many jobs that ended over the last week, more of them by day than by night, as the core makes them."""
    sources = [
        "town-hall-recording.mp4", LONG, "product-shot-7.mov", "入职培训（第三期）回放.mkv", "drone-lisbon.mov", "podcast-217.mkv",
        "interview_raw_03.mov", "二〇二五年度总结大会实况.mp4", "b-roll-04.mov", "wedding.mp4", "lecture-03.mp4",
    ]
    weights = [1 + 2 * (hour % 24 in range(8, 19)) + hour * 7 % 5 / 3 for hour in range(hours)]
    place = 0

    def hour_of_work(tx, share):
        nonlocal place
        for _ in range(share):
            place += 1
            payload = {"sourceUrl": f"https://media.example.org/{sources[place * 7 % 11]}", "transcode": ["1080p", "720p"][: 1 + place % 2]}
            row = submission.accept(tx, seeder.asked("video.transcode", payload, owner=["media", "alice", "市场部"][place % 3])).job
            row = lifecycle.start(tx, row.id, f"render-{place % 4 + 1}.4711")
            if place % 23 == 0:
                end = Failed(Problem("source-unavailable", "media.example.org did not answer within 10 s."))
            elif place % 41 == 0:
                end = Cancelled()
            else:
                end = Succeeded('{"created":[]}', fields="{}")
            lifecycle.settle(tx, row.id, row.attempt, end)
            began = clock.wire(clock.parse(tx.now) - timedelta(seconds=20 + place * 37 % 400))
            tx.run("UPDATE jobs SET created_at = :began, started_at = :began WHERE id = :id", began=began, id=row.id)

    for hour, weight in zip(range(hours, 4, -1), weights, strict=False):
        seeder.at(60 * hour).db.write(lambda tx: hour_of_work(tx, round(number * weight / sum(weights))))


def seed(seeder: Seeder, store, settings) -> dict[str, int]:
    """Jobs of every fate. Names of the noteworthy ones → ids."""
    history(seeder)
    names = [
        "harbour-at-dawn.mp4",
        "interview_raw_03.mov",
        "keynote-2026.mkv",
        "产品介绍.mp4",
        "drone-lisbon.mov",
        "wedding.mp4",
    ]
    for place in range(36):
        seeder.at(200 - 4 * place).submit(
            payload={
                "sourceUrl": f"https://media.example.org/{names[place % 6]}",
                "transcode": ["1080p", "720p"][: 1 + place % 2],
            },
            owner=["media", "alice", "市场部"][place % 3],
        )
        job = seeder.start()
        seeder.at(200 - 4 * place - (2.2, 0.7, 3.4, 1.3, 5.1)[place % 5])
        seeder.settle(job, Cancelled() if place % 9 == 5 else Succeeded('{"created":[]}', fields="{}"))
    found = {}
    seeder.at(52).submit(
        payload={"sourceUrl": "https://media.example.org/minutes.pdf", "transcode": ["720p"]}, owner="alice"
    )
    job = seeder.start()
    seeder.at(51.8).log(job, "source: minutes.pdf, 2.1 MB")
    seeder.settle(
        job,
        Failed(
            Problem(
                "source-codec-unsupported", "The source has no video stream that can be decoded. Found: a PDF document."
            )
        ),
    )
    found["failed"] = job[0]
    seeder.at(44).submit("demo.drill", {"seconds": 30, "steps": 10}, owner="alice")
    for attempt in range(3):
        job = seeder.at(44 - 3 * attempt).start(f"render-{attempt + 1}.88")
        seeder.at(43 - 3 * attempt).settle(
            job, Again(Problem("worker-crashed", "The process was ended by signal 9 (out of memory)."), 30)
        )
    found["crashed"] = job[0]
    seeder.at(31).submit(
        payload={"sourceUrl": "https://media.example.org/" + LONG, "transcode": ["2160p", "1080p", "720p"]},
        owner="市场部",
        tags='["发布会","夜间批次"]',
    )
    job = seeder.start()
    seeder.at(24).settle(
        job,
        Succeeded(
            json.dumps({"created": ["/v1/videos/1/playlists/1080p"]}),
            [
                {
                    "part": "2160p",
                    "detail": "Out of memory while encoding; the source may be too large for this machine.",
                }
            ],
        ),
    )
    found["partial"] = job[0]
    found["video"] = video(seeder, store, settings)
    waiting(seeder)
    found["running"] = running(seeder)
    seeder.at(0)
    return found


def video(seeder: Seeder, store, settings) -> int:
    """A video that can be watched."""
    import imageio_ffmpeg

    job_id = seeder.at(12).submit(
        payload={"sourceUrl": "/v1/artifacts/7/content", "transcode": ["720p", "360p"]}, tags='["campaign","autumn"]'
    )
    job = seeder.start("render-2.512")
    resource = seeder.db.read().value("SELECT resource FROM jobs WHERE id = :id", id=job_id)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "hls")
        for name, size in (("720p", "1280x720"), ("360p", "640x360")):
            target = folder / "playlists" / name
            target.mkdir(parents=True)
            subprocess.run(
                [
                    imageio_ffmpeg.get_ffmpeg_exe(),
                    "-v",
                    "error",
                    "-f",
                    "lavfi",
                    "-i",
                    f"gradients=s={size}:d=6:r=25:speed=0.02:n=4:seed=4:c0=0x0f3b4f:c1=0x1f8a70:c2=0xf2c14e:c3=0xd1495b",
                    "-pix_fmt",
                    "yuv420p",
                    "-hls_playlist_type",
                    "vod",
                    str(target / "index.m3u8"),
                ],
                check=True,
            )
        subprocess.run(
            [
                imageio_ffmpeg.get_ffmpeg_exe(),
                "-v",
                "error",
                "-i",
                str(folder / "playlists/720p/index.m3u8"),
                "-frames:v",
                "1",
                "-update",
                "1",
                str(folder / "poster.jpg"),
            ],
            check=True,
        )
        (folder / "index.m3u8").write_text(
            "#EXTM3U\n"
            + "".join(
                f"#EXT-X-STREAM-INF:BANDWIDTH={bandwidth},RESOLUTION={size}\nplaylists/{name}/index.m3u8\n"
                for name, size, bandwidth in (("720p", "1280x720", 2600000), ("360p", "640x360", 700000))
            )
        )
        publish.folder(seeder.db, store, settings, folder, owner="media", job_id=job_id, attempt=1, name="hls")
    for minutes, lines in (
        (11.9, ["source: h264 video, aac audio; 1280×720, 6.000 s"]),
        (11, ["720p: 1280×720, 6.000 s in 1 segments"]),
        (10.6, ["360p: 640×360, 6.000 s in 1 segments"]),
    ):
        seeder.at(minutes).log(job, *lines)
    fields = {
        "playlists": [
            {
                "name": name,
                "href": f"{resource}/playlists/{name}",
                "width": width,
                "height": height,
                "bandwidth": bandwidth,
                "duration": 6,
            }
            for name, width, height, bandwidth in (("720p", 1280, 720, 2600000), ("360p", 640, 360, 700000))
        ],
        "poster": f"{resource}/poster.jpg",
        "warnings": [],
    }
    seeder.at(10.5).settle(
        job, Succeeded(json.dumps({"created": [one["href"] for one in fields["playlists"]]}), fields=json.dumps(fields))
    )
    return job_id


def running(seeder: Seeder) -> int:
    """Jobs at work; the id of the one to look at."""
    first = 0
    for minutes, name, progress, stage, eta in (
        (6, "city-timelapse.mov", 83, "encoding 720p", 70),
        (4.2, LONG, 42, "encoding 1080p", 312),
        (2.1, "lecture-04.mp4", 17, "encoding 1080p", 640),
        (0.4, "podcast-218.mkv", 3, "reading the source", None),
    ):
        seeder.at(minutes).submit(
            payload={"sourceUrl": f"https://media.example.org/{name}", "transcode": ["1080p", "720p"]},
            owner="市场部" if name == LONG else "media",
            priority=Priority.HIGH,
        )
        job = seeder.start("render-7.202" if name == "lecture-04.mp4" else f"render-{int(minutes) % 3 + 1}.4711")  # 7: gone
        first = first or job[0]
        seeder.at(minutes - 0.1).log(
            job, f"source: h264 video, aac audio; 1920×1080, {round(40 * minutes)}.480 s", "encoding 1080p with libx264"
        )
        seeder.at(0.05).report(job, progress, stage, eta)
    seeder.at(1.5).submit("demo.drill", {"seconds": 600, "unknownLength": True}, owner="alice", priority=Priority.HIGH)
    job = seeder.start("render-1.4711")
    seeder.at(0.1).report(job, None, "waiting for an answer")
    return first


def callbacks(seeder: Seeder, job_id: int) -> None:
    """Receivers that work, that fail and that were given up, and what was sent to them about a job."""

    def endpoint(owner, url, events, description=""):
        return seeder.db.write(lambda tx: receivers.register(tx, owner, url, events, description))

    def deliver(receiver, outcome, minutes, took):
        row = seeder.at(minutes).db.write(lambda tx: log.get(tx, outbox.ping(tx, receiver)))
        about = {"job": job_id, "type": "video.ready", "step": 0, "id": row.id}
        seeder.db.write(lambda tx: tx.run("UPDATE deliveries SET job_id = :job, type = :type, step = :step WHERE id = :id", **about))
        delivery_row = seeder.db.write(lambda tx: delivery._take(tx, row.id, 60))[0]
        seeder.db.write(lambda tx: delivery._settle(tx, delivery_row, clock.wire(clock.now()), took, outcome))

    shop = endpoint("media", "https://shop.example.org/hooks/accepted", ["video.ready", "video.failed"], "The shop's product pages")
    slack = endpoint("media", "https://hooks.example.com/services/T0/B0", ["job.failed"], "Tells #media-team what failed")
    gone = endpoint("市场部", "https://old.example.net/webhook", ["*"], "发布会后台")
    deliver(shop, Answer(200, {}, b"ok"), 10.4, 182)
    deliver(slack, Unreachable("timeout", "No answer within 15 s."), 10.3, 15000)
    deliver(gone, Answer(410, {}, b"gone"), 10, 64)


def people(seeder: Seeder, job_id: int) -> None:
    """Keys of a team, and what its members did lately."""
    chief, media, shell = Actor("admin", Door.DASHBOARD, 1, "r-1"), Actor("media", Door.API, 2, "r-2"), Actor("root", Door.COMMAND)
    for minutes, owner, role, name, by in (
        (60 * 24 * 40, "admin", Role.ADMIN, "the chief's laptop", shell), (60 * 24 * 39, "media", Role.SUBMIT, "shop.example.org", chief),
        (60 * 24 * 38, "市场部", Role.SUBMIT, "发布会后台（含所有自动化脚本与临时外包人员）", chief), (60 * 24 * 5, "monitor", Role.READ, "Grafana", chief),
    ):
        seeder.at(minutes).db.write(lambda tx: access.make_key(tx, owner, role, name, by=by))
    seeder.at(60 * 30).db.write(lambda tx: access.revoke(tx, 4, chief))
    for minutes, actor, act, subject, owner, detail in (
        (300, media, Act.MAKE_ENDPOINT, "/v1/webhook-endpoints/1", "media", {"url": "https://shop.example.org/hooks/accepted"}),
        (200, chief, Act.ROTATE_SECRET, "/v1/webhook-endpoints/1", "media", {"receiver": "endpoint:1"}),
        (90, media, Act.REDELIVER, "/v1/deliveries/17", "media", {"url": "https://shop.example.org/hooks/accepted", "type": "video.ready"}),
        (6, media, Act.RETRY, f"/v1/jobs/{job_id}", "media", {"type": "video.transcode", "made": "4980"}),
        (21, chief, Act.CANCEL, "/v1/jobs/4711", "市场部", {"type": "video.transcode", "status": "running"}),
        (3, chief, Act.PURGE, "/v1/jobs/4012", "mallory", {"type": "demo.drill", "status": "failed"}),
    ):
        seeder.at(minutes).db.write(lambda tx: audit.note(tx, actor, act, subject, owner, **detail))


def waiting(seeder: Seeder) -> None:
    """Jobs that wait for a worker, for their time, for another attempt."""
    seeder.at(3).submit("demo.drill", {"seconds": 5, "failAttempts": 1}, owner="alice", priority=Priority.HIGH)
    job = seeder.start()
    seeder.at(2.5).settle(
        job, Again(Problem("source-unavailable", "media.example.org did not answer within 10 s."), 400)
    )
    seeder.at(0)
    night = clock.after(5 * 3600)
    for minutes, name, more in (
        (9, "archive-1998-tape-12.avi", {"not_before": night}),
        (2, "trailer_final_v2.mov", {}),
        (1.6, "年会花絮.mp4", {}),
        (1.2, "b-roll-17.mov", {}),
        (0.6, "b-roll-18.mov", {}),
    ):
        seeder.at(minutes).submit(
            payload={"sourceUrl": f"https://media.example.org/{name}", "transcode": ["1080p"]}, **more
        )


def hostile(seeder: Seeder) -> int:
    """A job whose every text tries to break the page."""
    owner = "mallory.with.a.very.long.owner.name.that.goes.on.and.on"
    payload = {
        HOSTILE: HOSTILE,
        "big": 12345678901234567890123,
        "deep": [[[[[[["x"]]]]]]],
        "long": "wide" * 25_000,
        "url": "javascript:alert(4)",
    }
    job_id = seeder.at(1).submit(
        "demo.drill",
        payload,
        owner=owner,
        priority=Priority.HIGH,
        tags=json.dumps([HOSTILE, "x" * 100], ensure_ascii=False),
    )
    job = seeder.start(HOSTILE.replace("\x00", ""))
    seeder.log(job, HOSTILE, "y" * 5000, "\x1b[31mred\x1b[0m")
    seeder.report(job, 50, HOSTILE)
    seeder.settle(
        job, Failed(Problem("drill-failed", HOSTILE, title=HOSTILE, errors=[{"part": HOSTILE, "detail": "z" * 3000}]))
    )
    return job_id
