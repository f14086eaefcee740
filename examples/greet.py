"""The smallest useful job type: it takes a list, reports progress and leaves a file."""

from marshmallow import fields, validate

from jobs import job_type


@job_type("greet.everyone", title="Greet everyone", payload={
    "names": fields.List(fields.Str(validate=validate.Length(1, 100)), required=True, validate=validate.Length(min=1),
                         metadata={"description": "Whom to greet."})})
def greet_everyone(job, names):
    """Write a greeting to everyone."""
    with job.artifact("greetings.txt", "text/plain") as out:
        for name in job.track(names):
            out.write(f"Hello, {name}!\n")
    return {"greeted": len(names), "file": out.href}
