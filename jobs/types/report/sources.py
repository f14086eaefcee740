"""What may be exported: data sources, their named queries, and the parameters that a query takes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from marshmallow import RAISE, Schema, ValidationError, fields, validate

from jobs import clock
from jobs.core.access import Caller

if TYPE_CHECKING:
    from jobs.work.context import Context

EVERYBODY = "*"
_LONGEST = 10_000    # characters of a text


class _Instant(fields.Field):
    """An RFC 3339 instant with its offset, as a datetime in UTC."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> datetime:
        try:
            return clock.parse(value)
        except (ValueError, TypeError):
            raise ValidationError("Write an RFC 3339 time with its offset, such as 2026-09-18T08:11:00Z.") from None


class _Text(fields.Str):
    """Text that any database takes."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        if "\0" in text or len(text) > _LONGEST:
            raise ValidationError(f"Write at most {_LONGEST} characters, without NUL.")
        return text


TYPES: dict[str, Callable[..., fields.Field]] = {
    "text": _Text,
    "integer": lambda **given: fields.Int(strict=True, validate=validate.Range(-2**63, 2**63 - 1), **given),
    "number": lambda **given: fields.Float(allow_nan=False, **given),
    "boolean": lambda **given: fields.Bool(truthy={True}, falsy={False}, **given),
    "date": fields.Date,
    "datetime": _Instant,
}


@dataclass(frozen=True)
class Param:
    """One parameter of a query. One that is neither required nor has a default is NULL when it is not given."""

    type: str = "text"
    required: bool = True
    default: Any = None
    choices: tuple[Any, ...] = ()

    def field(self) -> fields.Field:
        """What judges a value."""
        given: dict[str, Any] = {"required": True} if self.required else {"load_default": None, "allow_none": True}
        made = TYPES[self.type](**given)
        if self.choices:
            made.validators.append(validate.OneOf(self.choices))
        return made


@dataclass(frozen=True)
class Rows:
    """What a query gives: the names of its columns, the number of its rows (None: unknown), and the rows themselves."""

    names: list[str]
    total: int | None
    batches: Iterable[list[tuple]]


@dataclass(frozen=True)
class Query:
    """A query by its name. `count`: whether the rows may be counted first, for the progress."""

    name: str
    sql: str
    params: Mapping[str, Param] = field(default_factory=dict)
    count: bool = True

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A value for every parameter. ValidationError."""
        members = {name: param.field() for name, param in self.params.items()}
        schema = Schema.from_dict(members, name="Params")(unknown=RAISE)
        schema.error_messages = schema.error_messages | {"unknown": f"Unknown. {self.name} takes {self._takes()}."}
        defaults = {name: param.default for name, param in self.params.items() if param.default is not None}
        return schema.load(defaults | dict(given))

    def _takes(self) -> str:
        told = [f"{name} ({param.type}{'' if param.required else ', optional'})" for name, param in self.params.items()]
        return ", ".join(told) or "no parameters"


@dataclass(frozen=True)
class Source:
    """A database and its queries. `url` may hold a password and is never shown; `timeout` in seconds.

    `owners` are those who may use it, beside admins; None: everybody.
    """

    name: str
    queries: Mapping[str, Query]
    url: str = field(default="", repr=False)
    timeout: float = 600.0
    owners: frozenset[str] | None = None
    open: "Callable[[Context, Source, Query, dict[str, Any]], AbstractContextManager[Rows]] | None" = None

    def is_for(self, caller: Caller) -> bool:
        """Whether the source exists for this caller."""
        return self.owners is None or caller.owner in self.owners or caller.sees_all


@dataclass(frozen=True)
class Chosen:
    """A query of a source, with its parameters."""

    source: Source
    query: Query
    values: dict[str, Any]

    def rows(self, job: "Context") -> AbstractContextManager[Rows]:
        """Ask it. Problem or Retry."""
        return self.source.open(job, self.source, self.query, self.values)


class Catalogue:
    """Every source by its name."""

    def __init__(self, sources: Iterable[Source]):
        self._sources = {source.name: source for source in sources}

    def __iter__(self) -> Iterator[Source]:
        return iter(self._sources.values())

    def choose(self, source: str, query: str, params: Mapping[str, Any], caller: Caller | None = None) -> Chosen:
        """What is meant. ValidationError, by member, when there is no such thing (for this caller, if one is given)."""
        known = {one.name: one for one in self if caller is None or one.is_for(caller)}
        if source not in known:
            raise ValidationError({"source": [f"There is no such source. There are: {', '.join(known)}."]})
        queries = known[source].queries
        if query not in queries:
            raise ValidationError({"query": [f"{source} has no such query. It has: {', '.join(queries)}."]})
        try:
            return Chosen(known[source], queries[query], queries[query].values(params))
        except ValidationError as fault:
            raise ValidationError({"params": fault.messages}) from None

    def complete(self, payload: Mapping[str, Any], caller: Caller) -> Mapping[str, Any]:
        """Judge what is asked for by who asks, and write down whose jobs an export of `jobs` reads.

        What the key may see is decided here: when the job runs, only its owner is known, whose other keys may see less.
        """
        params = payload.get("params", {})
        chosen = self.choose(payload["source"], payload["query"], params, caller)
        if chosen.source.url:
            return payload
        owner = chosen.values["owner"]
        if not caller.sees_all and owner not in (None, caller.owner):
            raise ValidationError({"params": {"owner": ["Only an admin may export the jobs of others."]}})
        if caller.sees_all and owner is None:
            return {**payload, "params": {**params, "owner": EVERYBODY}}
        return payload

    def overview(self) -> str:
        """The sources that are there for everybody, and their queries."""
        told = [f"{one.name}: {', '.join(one.queries)}" for one in self if one.owners is None]
        return "; ".join(told) + "."


class Sources(validate.OneOf):
    """Offers the sources that are there for everybody; whether another one may be used depends on who asks."""

    def __init__(self, catalogue: Catalogue):
        super().__init__([one.name for one in catalogue if one.owners is None])

    def __call__(self, value: str) -> str:
        return value
