"""The operator's file of data sources (TOML), checked as a whole: each fault says where it is and what to change."""

import os
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from marshmallow import ValidationError

from jobs.settings import Settings, SettingsError, duration
from jobs.types.operator_file import tables_of
from jobs.types.report import reading
from jobs.types.report.sources import TYPES, Param, Query, Source

_NAME = re.compile(r"[a-z][a-z0-9-]{0,49}")
_WORD = re.compile(r"[A-Za-z_]\w{0,49}")
_ASKED = re.compile(r"(?<![:\w\\]):(\w+)(?!:)")         # as SQLAlchemy finds parameters
_COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_READS = ("select", "with", "values", "table")
_DRIVERS = {"pysqlite": "sqlite3", "mysqldb": "MySQLdb", "mysqlconnector": "mysql.connector"}    # driver → its module
_EXTRAS = {"psycopg": "./run install postgres"}


class _Fault(Exception):
    """Something in the file cannot be used."""


def read_sources(settings: Settings) -> list[Source]:
    """The sources in the file that ACCEPTED_DATA_SOURCES names; none without it. SettingsError lists what is wrong."""
    if not settings.data_sources:
        return []
    path = Path(settings.data_sources).expanduser().absolute()
    faults: list[str] = []
    sources = list(_all(tables_of("DATA_SOURCES", path), faults))
    if faults:
        raise SettingsError("\n".join(f"ACCEPTED_DATA_SOURCES: {path}: {fault}" for fault in faults))
    return sources


def _all(tables: dict[str, Any], faults: list[str]) -> Iterator[Source]:
    try:
        _only(tables, "sources")
        for name, table in _tables(tables, "sources").items():
            try:
                yield _source(name, table, faults)
            except _Fault as fault:
                faults.append(f"source {name!r}: {fault}")
    except _Fault as fault:
        faults.append(str(fault))


def _source(name: str, table: dict[str, Any], faults: list[str]) -> Source:
    _named(name, _NAME, "lower-case letters, digits and hyphens, such as web-shop")
    if name == "jobs":
        raise _Fault("this is the name of the server's own jobs; choose another.")
    _only(table, "url", "timeout", "owners", "queries")
    owners = table.get("owners")
    if owners is not None and not (isinstance(owners, list) and all(isinstance(owner, str) for owner in owners)):
        raise _Fault('owners is a list such as ["alice", "bob"]; leave it out to let everybody use the source.')
    queries = {}
    for query, inner in _tables(table, "queries").items():
        try:
            queries[query] = _query(query, inner)
        except _Fault as fault:
            faults.append(f"source {name!r}, query {query!r}: {fault}")
    if not table.get("queries"):
        raise _Fault(f"it has no query; add [sources.{name}.queries.NAME] with sql = \"SELECT …\".")
    return Source(name, queries, url=_url(_text(table, "url")), timeout=_timeout(table.get("timeout", "10m")),
                  owners=None if owners is None else frozenset(owners), open=reading.open_)


def _timeout(value: Any) -> float:
    try:
        seconds = duration(str(value))
    except ValueError as error:
        raise _Fault(f"timeout: {error}.") from None
    if seconds < 0.001:
        raise _Fault("timeout is at least 1ms.")
    return seconds


def _url(text: str) -> str:
    """The URL with what it names of the environment put in; a part of a URL is percent-encoded on the way."""
    def value(match: re.Match) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise _Fault(f"url names ${{{match[1]}}}, which is not in the environment; export it before the start.")
        return found if match[0] == text else quote(found, safe="")

    url = re.sub(r"\$\{(\w+)\}", value, text)
    url = re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", url)
    found = re.match(r"([a-z0-9]+)(?:\+([a-z0-9_]+))?://", url)
    if not found:
        raise _Fault("url is no SQLAlchemy URL; write such as sqlite:////srv/shop.db or "
                     "postgresql://reader:${PASSWORD}@host/shop.")
    dialect, driver = found.groups()
    if dialect == "sqlite" and not re.match(r"sqlite(\+pysqlite)?:///[^:?]", url):
        raise _Fault("url names no SQLite file; write sqlite:////srv/shop.db (four slashes: an absolute path).")
    if not driver and dialect != "sqlite":
        raise _Fault(f"url names no driver; write such as {dialect}+DRIVER://…, and install the driver.")
    if driver and not _is_there(_DRIVERS.get(driver, driver)):
        how = _EXTRAS.get(driver, "name it in requirements-team.txt, then ./run install team")
        raise _Fault(f"the driver {driver} is not installed: {how}.")
    return url


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _query(name: str, table: dict[str, Any]) -> Query:
    _named(name, _NAME, "lower-case letters, digits and hyphens, such as late-orders")
    _only(table, "sql", "count", "params")
    sql = _text(table, "sql").strip().removesuffix(";").strip()
    bare = _COMMENTS.sub(" ", sql)
    if not bare.split() or bare.split()[0].lower().strip("(") not in _READS:
        raise _Fault("sql must begin with SELECT, WITH, VALUES or TABLE; a report only reads.")
    if not isinstance(table.get("count", True), bool):
        raise _Fault("count is true or false.")
    params = {key: _param(key, inner) for key, inner in _tables(table, "params").items()}
    asked = set(_ASKED.findall(sql))
    if lacking := sorted(asked - params.keys()):
        raise _Fault(f"the SQL names :{lacking[0]}, which is not declared; "
                     f"add [….params] {lacking[0]} = {{ type = \"text\" }}, or write \\:{lacking[0]} if the colon is part of the SQL.")
    if idle := sorted(params.keys() - asked):
        raise _Fault(f"the parameter {idle[0]!r} is not used; write :{idle[0]} in the SQL or remove it.")
    return Query(name, sql, params, table.get("count", True))


def _param(name: str, table: Any) -> Param:
    _named(name, _WORD, "letters, digits and _, such as since")
    if not isinstance(table, dict):
        raise _Fault(f"parameter {name!r}: write such as {name} = {{ type = \"text\" }}.")
    try:
        _only(table, "type", "optional", "default", "choices")
        if table.get("type") not in TYPES:
            raise _Fault(f"type is one of {', '.join(TYPES)}.")
        if not isinstance(table.get("optional", False), bool):
            raise _Fault("optional is true or false.")
        default, choices = _told(table.get("default")), table.get("choices", [])
        if not isinstance(choices, list):
            raise _Fault("choices is a list.")
        judge = Param(table["type"]).field()
        given = tuple(judge.deserialize(_told(choice)) for choice in choices)
        param = Param(table["type"], "default" not in table and not table.get("optional"), default, given)
        if default is not None:
            param.field().deserialize(default)
    except ValidationError as error:
        told = " ".join(map(str, error.messages))
        raise _Fault(f"parameter {name!r}: default or choices do not fit its type: {told}") from None
    except _Fault as fault:
        raise _Fault(f"parameter {name!r}: {fault}") from None
    return param


def _told(value: Any) -> Any:
    """A TOML date or time as a client would write it."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def _tables(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    inner = table.get(key, {})
    if not isinstance(inner, dict) or (key != "params" and not all(isinstance(one, dict) for one in inner.values())):
        raise _Fault(f"{key} is a table of tables; write such as [{key}.NAME].")
    return inner


def _text(table: Mapping[str, Any], key: str) -> str:
    if not isinstance(table.get(key), str) or not table[key].strip():
        raise _Fault(f"{key} is missing; write {key} = \"…\".")
    return table[key]


def _only(table: Mapping[str, Any], *known: str) -> None:
    for key in table:
        if key not in known:
            raise _Fault(f"there is no {key!r}; it may have {', '.join(known)}.")


def _named(name: str, form: re.Pattern, words: str) -> None:
    if not form.fullmatch(name):
        raise _Fault(f"a name is made of {words}.")
