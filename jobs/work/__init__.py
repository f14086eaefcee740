"""How a job runs: declarations of job types, the worker, the dispatcher."""
