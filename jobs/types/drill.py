"""Play any fate a job can have, for trying the server and testing clients."""

import time
from contextlib import nullcontext

from marshmallow import fields, validate

from jobs import Problem, job_type

_SLICE = 0.05  # seconds between looks at whether the drill was cancelled


@job_type("demo.drill", title="Drill", payload={
    "seconds": fields.Float(load_default=2.0, validate=validate.Range(0, 86400),
                            metadata={"title": "Seconds", "description": "How long it takes."}),
    "steps": fields.Int(strict=True, load_default=10, validate=validate.Range(1, 10_000),
                        metadata={"title": "Steps", "description": "In how many steps it reports progress."}),
    "value": fields.Raw(load_default=None, allow_none=True,
                        metadata={"title": "Value", "description": "Any JSON; the result is {\"value\": …}."}),
    "fail": fields.Str(load_default=None, allow_none=True,
                       metadata={"title": "Failure",
                                 "description": "Fail for good, with this as the detail of the problem."}),
    "fail_status": fields.Int(strict=True, data_key="failStatus", load_default=422, validate=validate.Range(400, 599),
                              metadata={"title": "Status of the failure",
                                        "description": "The status of that problem."}),
    "partial": fields.List(fields.Str(), load_default=list,
                           metadata={"title": "Parts to skip",
                                     "description": "With one or more the drill ends as partialSuccess."}),
    "fail_attempts": fields.Int(strict=True, data_key="failAttempts", load_default=0, validate=validate.Range(0, 100),
                                metadata={"title": "Attempts that fail",
                                          "description": "How many attempts raise an exception before one works."}),
    "ignore_cancel": fields.Bool(data_key="ignoreCancel", load_default=False,
                                 metadata={"title": "Ignore a cancel",
                                           "description": "Do not stop when cancelled; be killed after the grace."}),
    "unknown_length": fields.Bool(data_key="unknownLength", load_default=False,
                                  metadata={"title": "Unknown length",
                                            "description": "Report progress without a total."}),
    "log_lines": fields.Int(strict=True, data_key="logLines", load_default=0, validate=validate.Range(0, 100_000),
                            metadata={"title": "Lines of log", "description": "How many lines to write to the log."}),
    "artifact": fields.Str(load_default=None, allow_none=True, validate=validate.Length(1, 200),
                           metadata={"title": "File to leave", "description": "Leave a text file of this name."}),
})
def drill(job, seconds, steps, value, fail, fail_status, partial, fail_attempts, ignore_cancel, unknown_length,
          log_lines, artifact):
    """Play any fate: take some time, succeed, fail, skip parts, ignore a cancel."""
    started = time.monotonic()
    with job.uncancelled() if ignore_cancel else nullcontext():
        for step in range(steps):
            job.progress(step, None if unknown_length else steps, f"step {step + 1} of {steps}")
            for line in range(log_lines * step // steps, log_lines * (step + 1) // steps):
                job.log(f"line {line + 1} of {log_lines}")
            _sleep_until(job, started + seconds * (step + 1) / steps)
        if job.attempt <= fail_attempts:
            raise RuntimeError(f"attempt {job.attempt} fails as asked")
        if fail is not None:
            raise Problem("drill-failed", fail, status=fail_status)
        for part in partial:
            job.skip(part, "skipped as asked")
        if artifact is not None:
            with job.artifact(artifact, "text/plain") as out:
                out.write(f"Left by drill {job.id}.\n")
    return {"value": value}


def _sleep_until(job, end):
    while (left := end - time.monotonic()) > 0:
        job.check()
        time.sleep(min(left, _SLICE))
