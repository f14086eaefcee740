"""How a job is seen: the HTTP API and the dashboard."""
