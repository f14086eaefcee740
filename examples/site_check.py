"""A job type with a collection: each check makes a report that outlives its job, and parts of it may fail."""

from marshmallow import fields, validate

from jobs import Problem, job_type, minutes


@job_type("site.check", title="Check a site", collection="site-checks", timeout=minutes(10), concurrency=2, payload={
    "urls": fields.List(fields.Str(metadata={"format": "uri"}), required=True, validate=validate.Length(1, 50), metadata={
        "input": True, "description": "The http(s) addresses to fetch."})},
          resource=lambda payload: {"urls": payload["urls"]})
def check_site(job, urls):
    """Fetch every address and note how large its answer is. Addresses that do not answer are named, not fatal."""
    sizes = {}
    for url in job.track(urls):
        job.stage(f"fetching {url}")
        try:
            sizes[url] = job.fetch(url, max_bytes=10_000_000).stat().st_size
        except Problem as problem:
            job.skip(url, problem.detail or problem.title)
    if not sizes:
        raise Problem("site-unreachable", "None of the addresses answered.", status=424)
    return {"sizes": sizes}
