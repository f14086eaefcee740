"""A job type that changes something outside of its own folder, and undoes it when it is interrupted."""

import os
import shutil
from pathlib import Path

from marshmallow import fields, validate

from jobs import Problem, Retry, job_type, minutes

SANDBOXES = Path(os.environ.get("SANDBOXES", "sandboxes"))


def remove_sandbox(job, name, files):
    """After a cancel, a failure or a lost attempt: leave nothing half made. A finished sandbox bears no job's mark."""
    if _mark(name).exists() and _mark(name).read_text() == job.id:
        shutil.rmtree(SANDBOXES / name)


def _mark(name) -> Path:
    return SANDBOXES / name / ".made-by"


@job_type("sandbox.provision", title="Provision a sandbox", cancellation="transactional", cleanup=remove_sandbox, timeout=minutes(5),
          max_attempts=5, payload={
              "name": fields.Str(required=True, validate=validate.Regexp(r"^[a-z][a-z0-9-]{0,39}$"),
                                 metadata={"description": "The sandbox's name."}),
              "files": fields.Int(strict=True, load_default=3, validate=validate.Range(1, 1000),
                                  metadata={"description": "How many files to fill it with."})})
def provision_sandbox(job, name, files):
    """Make a folder and fill it. Either all of it stays or nothing."""
    SANDBOXES.mkdir(parents=True, exist_ok=True)
    try:
        (SANDBOXES / name).mkdir()
    except FileExistsError:
        if _mark(name).exists():
            raise Retry(after=2, reason=f"Another job makes {name!r} at the moment.") from None
        raise Problem("sandbox-exists", f"There is a sandbox named {name!r} already.", status=409) from None
    _mark(name).write_text(job.id)
    for number in job.track(range(files), stage="filling"):
        job.run_process(["cp", os.devnull, str(SANDBOXES / name / f"file-{number}")])
    _mark(name).unlink()
    return {"sandbox": name, "files": files}
