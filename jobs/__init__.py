"""Accepted: long-running work over HTTP.

What authors of job types import is here; it is loaded on first use, so that the lower floors stay free of it.
"""

from typing import Any

__version__ = "0.1.0"
__all__ = ["Context", "Problem", "Retry", "hours", "job_type", "minutes"]
_HOMES = {"Context": "jobs.work.context", "Problem": "jobs.errors", "Retry": "jobs.errors", "hours": "jobs.work.job_type",
          "job_type": "jobs.work.job_type", "minutes": "jobs.work.job_type"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'jobs' has no attribute {name!r}")
    from importlib import import_module  # here, so that `import jobs` costs nothing

    return getattr(import_module(_HOMES[name]), name)
