"""The words for what the database says in codes, in the reader's language."""

from flask_babel import format_decimal, gettext, lazy_gettext, ngettext

from jobs import clock
from jobs.core.access import Role
from jobs.core.audit import Act, Door
from jobs.core.states import TERMINAL, Priority, Status

STATUSES = {
    Status.QUEUED: lazy_gettext("Waiting"),
    Status.RUNNING: lazy_gettext("Running"),
    Status.SUCCEEDED: lazy_gettext("Succeeded"),
    Status.PARTIAL: lazy_gettext("Partly succeeded"),
    Status.FAILED: lazy_gettext("Failed"),
    Status.CANCELLED: lazy_gettext("Cancelled"),
}
PRIORITIES = {
    Priority.HIGH: lazy_gettext("High"),
    Priority.NORMAL: lazy_gettext("Normal"),
    Priority.LOW: lazy_gettext("Low"),
}
ROLES = {
    Role.SUBMIT: lazy_gettext("submits and steers own jobs"),
    Role.READ: lazy_gettext("sees all, changes nothing"),
    Role.ADMIN: lazy_gettext("may do everything"),
}
EVENTS = {
    "job.queued": lazy_gettext("Accepted"),
    "job.started": lazy_gettext("Started"),
    "job.requeued": lazy_gettext("Went back to the queue"),
    "job.cancelRequested": lazy_gettext("Asked to stop"),
    "job.succeeded": lazy_gettext("Succeeded"),
    "job.partialSuccess": lazy_gettext("Partly succeeded"),
    "job.failed": lazy_gettext("Failed"),
    "job.cancelled": lazy_gettext("Cancelled"),
}
RESOURCE_EVENTS = {
    "ready": lazy_gettext("The outcome is ready"),
    "failed": lazy_gettext("The outcome could not be made"),
}
DELIVERIES = {
    "pending": lazy_gettext("On its way"),
    "delivered": lazy_gettext("Delivered"),
    "failed": lazy_gettext("Given up"),
}
DELIVERY_FAULTS = {
    "dns": lazy_gettext("no such host"),
    "connect": lazy_gettext("no connection"),
    "tls": lazy_gettext("no secure connection"),
    "timeout": lazy_gettext("no answer in time"),
    "protocol": lazy_gettext("no proper answer"),
    "forbidden": lazy_gettext("address not allowed"),
}
ACTS = {
    Act.CANCEL: lazy_gettext("Cancelled a job"),
    Act.RETRY: lazy_gettext("Tried a job again"),
    Act.PURGE: lazy_gettext("Purged a job"),
    Act.DELETE_RESOURCE: lazy_gettext("Deleted an outcome"),
    Act.WITHDRAW_FILE: lazy_gettext("Took an upload back"),
    Act.MAKE_KEY: lazy_gettext("Made a key"),
    Act.REVOKE_KEY: lazy_gettext("Revoked a key"),
    Act.MAKE_ENDPOINT: lazy_gettext("Registered an endpoint"),
    Act.CHANGE_ENDPOINT: lazy_gettext("Changed an endpoint"),
    Act.ENABLE_ENDPOINT: lazy_gettext("Enabled an endpoint"),
    Act.DISABLE_ENDPOINT: lazy_gettext("Disabled an endpoint"),
    Act.DELETE_ENDPOINT: lazy_gettext("Deleted an endpoint"),
    Act.ROTATE_SECRET: lazy_gettext("Made a new secret"),
    Act.REDELIVER: lazy_gettext("Sent callbacks again"),
}
DOORS = {
    Door.API: lazy_gettext("by the API"),
    Door.DASHBOARD: lazy_gettext("on the dashboard"),
    Door.COMMAND: lazy_gettext("by a command on the server"),
}


def place(endpoint: str | None) -> str:
    """The place to which a page belongs that is none itself: a job's to the list of jobs."""
    page = (endpoint or "").removeprefix("ui.")
    return {"job": "job_list", "confirm": "job_list", "endpoint": "endpoints", "endpoint_act": "endpoints",
            "create_endpoint": "endpoints", "make_key": "keys"}.get(page, "")


def status(code: str) -> str:
    """The word for a job's status."""
    return str(STATUSES[Status(code)])


def ends() -> dict[str, str]:
    """The words for the states in which nothing changes any more."""
    return {code.value: str(word) for code, word in STATUSES.items() if code in TERMINAL}


def priority(rank: int) -> str:
    """The word for a priority by its rank."""
    return str(PRIORITIES[Priority.of(rank)])


def event(code: str) -> str:
    """What an event of a job's history tells."""
    words = EVENTS.get(code) or RESOURCE_EVENTS.get(code.rpartition(".")[2])
    return str(words) if words else code


def delivery(state: str) -> str:
    """Where a delivery stands."""
    return str(DELIVERIES[state])


def delivery_fault(code: str) -> str:
    """Why an attempt at a delivery brought no answer."""
    return str(DELIVERY_FAULTS.get(code, code))


def duration(seconds: float) -> str:
    """A length of time in its two largest units: `4.2 s`, `3 min 20 s`, `5 h 4 min`, `3 d 2 h`."""
    if seconds < 10:
        tenths = f"{max(seconds, 0):.1f}"
        return gettext("%(number)s s", number=tenths)
    whole = round(seconds)
    if whole < 60:
        return gettext("%(number)s s", number=whole)
    if whole < 3600:
        return gettext("%(minutes)s min %(seconds)s s", minutes=whole // 60, seconds=whole % 60)
    if whole < 86400:
        return gettext("%(hours)s h %(minutes)s min", hours=whole // 3600, minutes=whole % 3600 // 60)
    return gettext("%(days)s d %(hours)s h", days=whole // 86400, hours=whole % 86400 // 3600)


def now() -> str:
    """The server's clock, by which a page corrects that of its reader."""
    return clock.wire(clock.now())


def between(instant: str, to: str) -> str:
    """The time since an instant, or left until it, as a clock shows it: `0:42`, `1:05:09`; never negative."""
    left = round(clock.seconds_until(instant))
    whole = max(0, left if to == "left" else -left)
    hours, minutes, seconds = whole // 3600, whole % 3600 // 60, whole % 60
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def count(number: int) -> str:
    """A number as the reader writes it: `4,710`."""
    return format_decimal(number)


def size(number: int) -> str:
    """Bytes as people write them: `812 B`, `4.1 kB`, `12 MB` (powers of 1000)."""
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 999.5 or unit == "TB":
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("unreachable")


def more(number: int) -> str:
    """What stands at the end of a cut list."""
    return ngettext("%(num)s more", "%(num)s more", number)
