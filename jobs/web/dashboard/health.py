"""What is the matter with the server, as a banner says it; who works, and on what; why a job waits."""

import shutil
from dataclasses import dataclass

from flask_babel import gettext, ngettext

from jobs import clock
from jobs.core import overview
from jobs.core.access import Caller
from jobs.db import Reader, Row
from jobs.errors import StorageUnavailable
from jobs.web import workers
from jobs.web.dashboard import words
from jobs.web.dashboard.shown import Shown, show
from jobs.web.site import Site
from jobs.webhooks import receivers

_LOW = 1_000_000_000  # bytes that are left on the disk
_SETTLED = 10         # seconds at work after which a worker must be known to Redis


@dataclass(frozen=True)
class Bench:
    """A worker and what it does; `job` is None when it is idle, or busy with what this reader may not see (`busy`).

    A `silent` one holds a job and is not known to Redis: it has ended, or will be heard of again.
    """

    name: str
    queues: tuple[str, ...]
    beat: str
    busy: bool
    silent: bool
    job: Shown | None


@dataclass(frozen=True)
class Health:
    """`alarms` are sentences; `served` the queues that a worker serves, or None when that is unknown."""

    alarms: list[str]
    benches: list[Bench]
    queues: list[Row]
    served: set[str] | None
    full: set[str]

    def why(self, job: Shown) -> str:
        """Why a job that may start has not started."""
        if self.served is not None and job.queue not in self.served:
            return gettext("no worker serves the queue %(queue)s", queue=job.queue)
        if job.type in self.full:
            return gettext("as many of its type run as may run at once")
        return gettext("waits for a worker")


def look(site: Site, reader: Reader, caller: Caller) -> Health:
    """How things stand, as far as this reader may know."""
    found, leases = workers.seen(site), overview.leases(reader)
    served = None if found is None else {queue for worker in found for queue in worker.queues}
    queues = overview.queues(reader, caller.scope)
    running = overview.running_by_type(reader)
    full = {declared.name for declared in site.registry
            if declared.concurrency and running.get(declared.name, 0) >= declared.concurrency}
    return Health(_alarms(site, reader, caller, found, queues), _benches(site, caller, found, leases), queues, served, full)


def _benches(site: Site, caller: Caller, found: list[workers.Worker] | None, leases: list[Row]) -> list[Bench]:
    held = {row.worker: row for row in leases}
    named = {worker.name: worker for worker in found or ()}
    benches = []
    for name in sorted({*held, *named}):
        row, worker = held.get(name), named.get(name)
        seen = row if row is not None and caller.scope in (None, row.owner) else None
        benches.append(Bench(name, worker.queues if worker else (row.queue,), worker.beat if worker else "", row is not None,
                             found is not None and worker is None and clock.seconds_until(row.attempt_at) < -_SETTLED,
                             show([seen], site.registry, caller)[0] if seen else None))
    return benches


def _alarms(site: Site, reader: Reader, caller: Caller, found: list[workers.Worker] | None, queues: list[Row]) -> list[str]:
    alarms = []
    try:
        site.db.check_room()
        free = shutil.disk_usage(site.settings.data_dir).free
        if free < _LOW:
            alarms.append(gettext("The disk is almost full: %(size)s are left.", size=words.size(free)))
    except (StorageUnavailable, OSError):
        alarms.append(gettext("The disk is full: nothing new can be accepted."))
    if found is None:
        alarms.append(gettext("Redis does not answer. What is submitted is kept and starts when Redis is back."))
    elif not found:
        alarms.append(gettext("No worker has been seen for a minute. What is submitted is kept and waits for one."))
    else:
        served = {queue for worker in found for queue in worker.queues}
        alarms += [gettext("No worker serves the queue %(queue)s, in which jobs wait.", queue=row.queue)
                   for row in queues if row.waiting and row.queue not in served]
    failing = receivers.failing(reader, caller.scope)
    if failing:
        alarms.append(ngettext("Callbacks to %(num)s endpoint fail or were stopped.",
                               "Callbacks to %(num)s endpoints fail or were stopped.", failing))
    return alarms
