"""Job types for the tests of the contract: each has what the drill lacks."""

import time

from marshmallow import Schema, fields, validate

from jobs import Problem, job_type


class Login(Schema):
    """A nested object with a secret in it."""

    user = fields.Str(required=True)
    password = fields.Str(required=True, metadata={"secret": True})


@job_type("test.note", collection="notes", payload={
    "text": fields.Str(required=True, validate=validate.Length(1, 100)),
    "fate": fields.Str(load_default="ready", validate=validate.OneOf(["ready", "fail", "partial", "null", "hold"]))},
    resource=lambda payload: {"text": payload["text"]})
def note(job, text, fate):
    """Own a collection."""
    if fate == "fail":
        raise Problem("drill-failed", "as asked", status=503)
    if fate == "hold":
        while True:
            job.check()
            time.sleep(0.02)
    if fate == "partial":
        job.skip("second half", "as asked")
    return None if fate == "null" else {"length": len(text)}


@job_type("test.secret", payload={
    "token": fields.Str(required=True, metadata={"secret": True}),
    "logins": fields.List(fields.Nested(Login), load_default=list),
    "fate": fields.Str(load_default="succeed")}, max_attempts=1)
def secret(job, token, logins, fate):
    """Try hard to give a secret away."""
    job.stage(f"with {token}")
    job.log(f"the token is {token}, the logins are {logins}")
    if fate == "fail":
        raise Problem("drill-failed", f"{token} does not fit", where=token)
    if fate == "raise":
        raise RuntimeError(f"{token} does not fit")
    if fate == "partial":
        job.skip("a part", f"{token} does not fit")
    return {"token": token, "length": len(token)}


@job_type("test.form", payload={
    "source": fields.Str(required=True, metadata={"input": True, "title": "Source"}),
    "mode": fields.Str(load_default="fast", validate=validate.OneOf(["fast", "good"], labels=["Fast one", ""])),
    "count": fields.Int(load_default=2, validate=validate.Range(1, 9, error="There are {min} to {max}, not {input}.")),
    "names": fields.List(fields.Str(validate=validate.Length(max=5)))},
    words={"zh": {"Take a form apart.": "拆开一张表。", "Source": "来源", "Fast one": "快的",
                  "There are {min} to {max}, not {input}.": "可以有 {min} 到 {max} 个，不能是 {input}。"},
           "zh-Hant": {"Source": "來源"}})
def form(job, source, mode, count, names=()):
    """Take a form apart."""
    raise Problem("drill-failed", "as asked")


@job_type("test.quick", sync_wait=20, payload={"value": fields.Raw(load_default=None, allow_none=True),
                                               "seconds": fields.Float(load_default=0)})
def quick(job, value, seconds):
    """Answer at once what it was given."""
    time.sleep(seconds)
    return value


@job_type("test.keyed", require_idempotency_key=True)
def keyed(job):
    """Want an Idempotency-Key."""


@job_type("test.big", payload={"size": fields.Int(load_default=0), "filler": fields.Str(load_default="")})
def big(job, size, filler):
    """Return a long result."""
    return {"filler": "x" * size}


@job_type("test.trace")
def trace(job):
    """Tell the trace context that came along."""
    return {"traceparent": job.traceparent}


@job_type("test.parked", queue="nobody")
def parked(job):
    """Stay queued: no worker serves its queue."""


@job_type("test.reader", payload={"source": fields.Str(required=True, metadata={"input": True})})
def reader(job, source):
    """Read a file."""
    return job.open_input(source).read_text()
