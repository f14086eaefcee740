"""A video.transcode job, from POST to its end, against the bare ffmpeg command lines that it consists of.

    python bench/transcode.py [rounds]

Prints one JSON object; `ratio` is bare seconds over job seconds: 1 means that the server costs nothing. Best of each.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from jobs.types import ffmpeg
from jobs.types.video import SIDES
from tests.clips import FFMPEG, X264, make_clip, picture
from tests.stack import Stack

RENDITIONS = ["720p", "360p"]


def main(rounds: int) -> None:
    """Both in turns, so that a busy machine disturbs them alike."""
    with tempfile.TemporaryDirectory() as name, Stack(Path(name), lease=30) as server:
        folder = Path(name)
        clip = make_clip(*f"{picture('1280x720', 20)} -f lavfi -i sine=d=20 {X264} -c:a aac".split(), into=folder / "a.mp4")
        bare, job = [], []
        for _ in range(rounds):
            bare.append(by_hand(clip, folder))
            job.append(by_job(server.admin, clip))
    print(json.dumps({"bare": round(min(bare), 2), "job": round(min(job), 2), "ratio": round(min(bare) / min(job), 3)}))


def by_hand(clip: Path, folder: Path) -> float:
    """Seconds for the command lines alone."""
    source = ffmpeg.Source(clip)
    for line in subprocess.run(ffmpeg.describe(FFMPEG, clip), capture_output=True, text=True).stdout.splitlines():
        source.feed(line)
    start = time.monotonic()
    for name in RENDITIONS:
        with tempfile.TemporaryDirectory(dir=folder) as target:
            subprocess.run(ffmpeg.encode(FFMPEG, source, *source.picture.fit(SIDES[name])), cwd=target, check=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def by_job(client, clip: Path) -> float:
    """Seconds from the submission to the job's end, the poster and everything else included."""
    with clip.open("rb") as file:
        upload = client.post("/v1/files", data=file).json()
    start = time.monotonic()
    job = client.submit("video.transcode", sourceUrl=upload["url"], transcode=RENDITIONS)
    while job["status"] in ("queued", "running"):
        job = client.get(f"/v1/jobs/{job['id']}?wait=50").json()
    assert job["status"] == "succeeded", job
    return time.monotonic() - start


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
