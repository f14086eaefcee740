"""How a team declares its work: a function, a name, the shape of the payload. Everything else follows from that.

`@job_type(…)` returns a frozen declaration and registers nothing; a `Registry` gathers declarations and checks them.
"""

import importlib.util
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from marshmallow import RAISE, Schema, fields

from jobs.core.access import Caller
from jobs.settings import Settings

OPTIONS = ("priority", "callbackUrl", "notBefore", "maxAttempts", "timeout", "queueTtl", "tags")
RESERVED = frozenset({
    "v1", "jobs", "operations", "events", "files", "artifacts", "keys", "audit", "job-types", "event-types", "webhook-endpoints",
    "callback-secrets", "deliveries", "schedules", "api", "ui", "docs", "problems", "static", "livez", "readyz", "healthz",
    "metrics", "openapi.json"})
CANCELLATIONS = ("best-effort", "transactional")
_NOT_PLAIN = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


class DeclarationError(Exception):
    """A job type is declared in a way that cannot work."""


@dataclass(frozen=True)
class JobType:
    """One kind of work. `timeout` is in seconds, `concurrency` counts running jobs over all workers.

    `requires` names the modules that the handler imports and that not every installation has; `./run install EXTRA`,
    with the word in `extra`, brings them. `words` holds translations for the dashboard: by language (`zh-Hans`, or `zh`
    for each kind of Chinese), each text as the declaration has it, with its translation.
    """

    name: str
    handler: Callable[..., Any]
    schema: Schema
    title: str
    description: str = ""
    collection: str | None = None
    queue: str = "default"
    max_attempts: int | None = None
    timeout: int | None = None
    queue_ttl: int | None = None
    concurrency: int | None = None
    cancellation: str = "best-effort"
    sync_wait: int = 0
    require_idempotency_key: bool = False
    resource: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    check: Callable[..., None] | None = None
    at_start: Callable[[Settings], None] | None = None
    complete: Callable[[Mapping[str, Any], Caller], Mapping[str, Any]] | None = None
    cleanup: Callable[..., Any] | None = None
    requires: tuple[str, ...] = ()
    extra: str | None = None
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    secrets: frozenset[str] = field(default=frozenset())
    inputs: frozenset[str] = field(default=frozenset())
    sources: frozenset[str] = field(default=frozenset())

    def judge(self, payload: Mapping[str, Any], settings: Settings) -> None:
        """Let `check` look at a loaded payload, and at the settings if it takes them. Problem or ValidationError."""
        if self.check:
            wants_settings = len(inspect.signature(self.check).parameters) > 1
            self.check(payload, settings) if wants_settings else self.check(payload)

    def __call__(self, job: Any, **payload: Any) -> Any:
        return self.handler(job, **payload)

    @property
    def unavailable(self) -> str | None:
        """Why jobs of this type cannot run in this installation, and what to do; None when they can. Imports nothing."""
        missing = [name for name in self.requires if not importlib.util.find_spec(name)]
        if not missing:
            return None
        return (f"{self.name} needs {', '.join(missing)}, which this server does not have. "
                + (f"./run install {self.extra} brings it." if self.extra else "The operator can install it."))


def minutes(number: float) -> int:
    """Seconds."""
    return round(number * 60)


def hours(number: float) -> int:
    """Seconds."""
    return round(number * 3600)


def job_type(name: str, *, payload: Mapping[str, fields.Field] | Schema | type[Schema] | None = None, title: str | None = None,
             **options: Any) -> Callable[[Callable], JobType]:
    """Declare the decorated function as a job type.

    `payload` maps names to marshmallow fields. A field's metadata may say `secret=True` (covered wherever the job is
    shown) or `input=True` (names an upload, an artifact or an http(s) address) or `source=True` (an http(s) address
    that the job will fetch). The function's docstring describes the
    type; `title` is its short name for people. The other keywords are the members of `JobType`.
    """

    if not isinstance(name, str):
        raise DeclarationError('Write @job_type("area.verb"), with a name in parentheses.')
    unknown = options.keys() - JobType.__dataclass_fields__.keys()
    if unknown:
        raise DeclarationError(f"Job type {name!r}: there is no keyword {min(unknown)!r}; docs/job-types.md lists them.")

    def declare(handler: Callable) -> JobType:
        schema = _schema(name, payload)
        description = inspect.cleandoc(handler.__doc__ or "")
        marked = {mark: frozenset(_shown(key, value) for key, value in schema.fields.items() if value.metadata.get(mark))
                  for mark in ("secret", "input", "source")}
        try:
            return JobType(name=name, handler=handler, schema=schema, title=title or name.replace(".", " ").capitalize(),
                           description=description, secrets=marked["secret"], inputs=marked["input"],
                           sources=marked["source"], **options)
        except TypeError as error:
            raise DeclarationError(f"Job type {name!r}: {error}") from None

    return declare


class Registry:
    """The job types of this server, by name and by collection. DeclarationError when one cannot work."""

    def __init__(self, types: Iterable[JobType] = ()):
        self._by_name: dict[str, JobType] = {}
        self._by_collection: dict[str, JobType] = {}
        for declared in types:
            self._add(declared)

    def get(self, name: str) -> JobType | None:
        """The type of this name."""
        return self._by_name.get(name)

    def by_collection(self, collection: str) -> JobType | None:
        """The type that owns this collection."""
        return self._by_collection.get(collection)

    def __iter__(self) -> Iterator[JobType]:
        return iter(sorted(self._by_name.values(), key=lambda declared: declared.name))

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def limits(self) -> dict[str, int]:
        """How many jobs of a type may run at once, for those types that say so."""
        return {declared.name: declared.concurrency for declared in self if declared.concurrency}

    @property
    def cleaned(self) -> frozenset[str]:
        """The types that declare a clean-up."""
        return frozenset(declared.name for declared in self if declared.cleanup)

    def _add(self, declared: JobType) -> None:
        for fault in _faults(declared):
            raise DeclarationError(f"Job type {declared.name!r}: {fault}")
        if declared.name in self._by_name:
            raise DeclarationError(f"Job type {declared.name!r} is declared twice; give one of them another name.")
        owner = self._by_collection.get(declared.collection or "")
        if owner:
            raise DeclarationError(f"Job type {declared.name!r}: the collection {declared.collection!r} belongs to {owner.name!r}.")
        self._by_name[declared.name] = declared
        if declared.collection:
            self._by_collection[declared.collection] = declared


def _faults(declared: JobType) -> Iterator[str]:
    """What is wrong with a declaration, each with a hint."""
    if not re.fullmatch(r"[a-z][a-z0-9]*([.-][a-z0-9]+)*", declared.name) or len(declared.name) > 100:
        yield "a name is lower-case words joined by dots or hyphens, such as report.export."
    if declared.name.lower() in ("requeststatus", "operations"):
        yield "this name is reserved; choose another."
    if declared.collection is not None:
        if declared.collection in RESERVED:
            yield f"{declared.collection!r} is reserved and cannot be a collection; choose another."
        if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", declared.collection):
            yield "a collection is a lower-case plural joined by hyphens, such as article-exports."
    for key, value in declared.schema.fields.items():
        if _shown(key, value) in OPTIONS:
            yield f"the payload may not have a member {_shown(key, value)!r}; it is an option of every job. Rename it."
    yield from _misfits(declared)
    if declared.cancellation not in CANCELLATIONS:
        yield f"cancellation is one of {', '.join(CANCELLATIONS)}."
    for option in ("timeout", "max_attempts", "concurrency", "queue_ttl"):
        number = getattr(declared, option)
        if number is not None and (not isinstance(number, int) or number < 1):
            yield f"{option} is a whole number of at least 1."
    if isinstance(declared.requires, str) or any("." in name for name in declared.requires):
        yield 'requires is a tuple of the names of top-level modules, such as ("numpy",).'
    if not (_is_table(declared.words) and all(map(_is_table, declared.words.values()))
            and all(isinstance(text, str) for table in declared.words.values() for text in table.values())):
        yield 'words is a table of tables by language, such as {"zh-Hans": {"Count words": "统计词数"}}.'
    if not 0 <= declared.sync_wait <= 50:
        yield "sync_wait is between 0 and 50 seconds."


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _misfits(declared: JobType) -> Iterator[str]:
    """Whether the handler and the clean-up can be called with a job and the payload's members."""
    members = [value.attribute or key for key, value in declared.schema.fields.items()]
    for function in (declared.handler, declared.cleanup):
        if function is None:
            continue
        if any(kind(function) for kind in _NOT_PLAIN):
            yield f"{function.__name__}() is asynchronous or yields; a handler is a plain function that returns its result."
            continue
        try:
            inspect.signature(function).bind(None, **dict.fromkeys(members))
        except TypeError as error:
            taken = ", ".join(["job", *members])
            yield f"{function.__name__}() does not take ({taken}): {error}."


def _schema(name: str, payload: Any) -> Schema:
    if isinstance(payload, type):
        payload = payload()
    if isinstance(payload, Schema):
        return payload
    for key, value in (payload or {}).items():
        if not isinstance(value, fields.Field):
            raise DeclarationError(f"Job type {name!r}: the payload's member {key!r} is no marshmallow field; "
                                   "write such as fields.Str().")
    return Schema.from_dict(dict(payload or {}), name="Payload")(unknown=RAISE)


def _shown(key: str, value: fields.Field) -> str:
    """The member's name on the wire."""
    return value.data_key or key
