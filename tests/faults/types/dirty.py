"""A job type whose clean-up fails until a file says that it may work."""

import time
from pathlib import Path

from marshmallow import fields

from jobs import job_type


def _undo(job, folder):
    works = Path(folder, "open").exists()
    with Path(folder, "tries").open("a") as tries:
        tries.write(f"{job.id}:{job.attempt}\n")
    if not works:
        raise RuntimeError("not yet")


@job_type("test.dirty", payload={"folder": fields.Str(required=True)}, cleanup=_undo)
def dirty(job, folder):
    """Say that it has begun, then work until it is stopped."""
    Path(folder, f"began {job.attempt}").touch()
    while True:
        job.progress(1)
        time.sleep(0.02)
