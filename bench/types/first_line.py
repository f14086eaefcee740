"""The type that bench/overhead.py measures with."""

import time

from jobs import job_type


@job_type("bench.first-line")
def first_line(job):
    """Answer the time at which the handler started."""
    return time.time()
