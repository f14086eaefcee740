"""The same job in other dialects: views of the native one, over the same reads and verbs. None has a table or state."""

from jobs.web.dialects import azure, google, snake

DIALECTS = (google, snake, azure)
"""Each: `blueprint`, and `render(job, …)`, a pure function from a job's row to what its clients read."""
