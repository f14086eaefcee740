"""A job type whose side effect can be counted."""

import os
import time

from marshmallow import fields

from jobs import job_type


@job_type("test.line", payload={"path": fields.Str(required=True), "seconds": fields.Float(load_default=0.0)})
def line(job, path, seconds):
    """Append `job:attempt` to a file, in one write, and take some time."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{job.id}:{job.attempt}\n".encode())
    os.close(file)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        job.progress(1)
        time.sleep(0.02)
