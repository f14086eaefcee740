"""Figures for Prometheus, read from the database at each scrape, so that every web process tells the same."""

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from jobs import clock
from jobs.core.states import Status
from jobs.db import Reader
from jobs.web.site import Site
from jobs.webhooks import log, receivers


def render(site: Site) -> tuple[bytes, str]:
    """(text, its content type)."""
    registry = CollectorRegistry()
    registry.register(_Figures(site))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Figures:
    """Collects at each scrape."""

    def __init__(self, site: Site):
        self._site = site

    def collect(self) -> Iterator[Metric]:
        reader = self._site.db.read()
        jobs = GaugeMetricFamily("accepted_jobs", "Jobs kept, by queue, type and status.", labels=["queue", "type", "status"])
        for row in reader.all("SELECT queue, type, status, sum(number) AS number FROM tallies GROUP BY queue, type, status"):
            jobs.add_metric([row.queue, row.type, row.status], int(row.number))
        yield jobs
        yield GaugeMetricFamily("accepted_oldest_due_seconds", "How long the job that is due longest has waited.", _oldest(reader))
        yield GaugeMetricFamily("accepted_workers_busy", "Attempts that run now.", reader.value("SELECT count(*) FROM leases"))
        deliveries = GaugeMetricFamily("accepted_deliveries", "Callbacks that are new, retried, or were given up.", labels=["state"])
        for state, number in log.figures(reader).items():
            deliveries.add_metric([state], number)
        yield deliveries
        yield GaugeMetricFamily("accepted_endpoints_failing", "Registered endpoints that fail or are disabled.",
                                receivers.failing(reader, None))
        yield GaugeMetricFamily("accepted_version", "The version of the last visible change.",
                                reader.value("SELECT max(version) FROM jobs") or 0)
        yield GaugeMetricFamily("accepted_redis_up", "Whether Redis answers.", int(self._site.doorbell.works()))
        yield GaugeMetricFamily("accepted_job_types", "Job types declared.", len(self._site.registry))


def _oldest(reader: Reader) -> float:
    due_at = reader.value(f"SELECT min(due_at) FROM jobs WHERE status = '{Status.QUEUED}'")
    return max(0.0, -clock.seconds_until(due_at)) if due_at else 0.0
