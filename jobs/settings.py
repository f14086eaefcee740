"""Every setting: one row each, read from the environment once, at the start.

An unknown `ACCEPTED_` variable or a value that does not parse stops the start with a hint instead of being ignored.
"""

import difflib
import ipaddress
import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PREFIX = "ACCEPTED_"
OF_CLIENTS = ("URL", "KEY")     # what the docs have a client export, often in the shell in which the server starts
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


class SettingsError(Exception):
    """A setting is unknown or its value cannot be used."""


def duration(text: str) -> float:
    """Seconds: a bare number, or a number with ms, s, m, h or d."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?", text.strip().lower())
    if not match:
        raise ValueError("write a duration such as 30, 500ms, 10m, 24h or 30d")
    return float(match[1]) * _UNITS[match[2] or "s"]


def size(text: str) -> int:
    """Bytes: a bare number, or a number with k, m or g (powers of 1024)."""
    match = re.fullmatch(r"(\d+)\s*([kmg]?)(?:i?b)?", text.strip().lower())
    if not match:
        raise ValueError("write a size such as 65536, 512k, 8m or 2g")
    return int(match[1]) * _SIZES[match[2]]


def count(text: str) -> int:
    """A whole number, not negative."""
    if not re.fullmatch(r"\d+", text.strip()):
        raise ValueError("write a whole number, 0 or more")
    return int(text)


def some(text: str) -> int:
    """A whole number, at least 1."""
    number = count(text)
    if not number:
        raise ValueError("write a whole number, 1 or more")
    return number


def switch(text: str) -> bool:
    """1, true, yes, on — or 0, false, no, off."""
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    try:
        return words[text.strip().lower()]
    except KeyError:
        raise ValueError("write 1 or 0") from None


def words(text: str) -> tuple[str, ...]:
    """A list, separated by commas or white space."""
    return tuple(word for word in re.split(r"[,\s]+", text) if word)


def networks(text: str) -> tuple[str, ...]:
    """A list of IP networks; a single address is one."""
    for word in words(text):
        try:
            ipaddress.ip_network(word, strict=False)
        except ValueError:
            raise ValueError(f"{word} is no network; write such as 127.0.0.1/32 or 10.0.0.0/8") from None
    return words(text)


def folder(text: str) -> Path | None:
    """A folder, as an absolute path; nothing if not said."""
    return Path(text.strip()).expanduser().absolute() if text.strip() else None


def web_url(text: str) -> str:
    """An http(s) URL, or nothing."""
    parts = urlsplit(text)
    if text and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment):
        raise ValueError("write a URL such as https://jobs.example.org, a path is fine")
    return text


def origins(text: str) -> tuple[str, ...]:
    """A list of origins, as browsers write them, or `*`."""
    for word in words(text):
        if word != "*" and not re.fullmatch(r"https?://[^/?#@]+", word):
            raise ValueError(f"{word} is no origin; write such as https://app.example.org, without a path")
    return words(text)


def port(text: str) -> int:
    """A TCP port; 0 lets the system choose a free one."""
    number = count(text)
    if number > 65535:
        raise ValueError("a port is at most 65535")
    return number


def redis_url(text: str) -> str:
    """A URL of a Redis or Valkey server, or nothing."""
    if text and not re.match(r"(rediss?|unix)://.", text):
        raise ValueError("write a URL such as redis://host:6379/0, rediss://… or unix:///path/to/redis.sock")
    return text


def postgres_url(text: str) -> str:
    """A URL of a PostgreSQL database, or nothing."""
    if text and not re.match(r"postgres(ql)?(\+psycopg)?://", text):
        raise ValueError("write a URL such as postgresql+psycopg://user:password@host/database")
    return re.sub(r"^postgres\w*(\+psycopg)?:", "postgresql+psycopg:", text)


def limits(text: str) -> dict[str, int]:
    """Numbers by the names of job types: `video.transcode=2, ocr.read=1`."""
    found = {}
    for word in words(text):
        name, equals, number = word.partition("=")
        if not (name and equals and re.fullmatch(r"\d{1,6}", number)):
            raise ValueError(f"{word} says no limit; write such as video.transcode=2, and 0 for none")
        found[name] = int(number)
    return found


@dataclass(frozen=True)
class Row:
    """One setting: its name without the prefix, default as text, parser, and what it means."""

    name: str
    default: str
    parse: Callable[[str], Any]
    help: str


TABLE = (
    Row("DATA_DIR", "./var", Path, "Folder for the database, artifacts, key files and locks. Must be a local disk."),
    Row("BIND", "127.0.0.1", str, "Address the web server listens on."),
    Row("PORT", "8202", port, "Port the web server listens on."),
    Row("PUBLIC_URL", "", web_url, "The URL by which clients reach the server, a path included. Default: http://BIND:PORT, with this machine's name for 0.0.0.0."),
    Row("TRUSTED_PROXIES", "", networks, "CIDRs of proxies whose X-Forwarded headers are believed."),
    Row("DATABASE_URL", "", postgres_url, "A PostgreSQL URL (postgresql+psycopg://…) instead of SQLite in DATA_DIR."),
    Row("REDIS_URL", "", redis_url, "A Redis or Valkey server instead of the embedded one."),
    Row("ARTIFACTS_URL", "", str, "Where artifacts are kept, e.g. s3://bucket/prefix, instead of DATA_DIR/artifacts."),
    Row("ADMIN_KEY", "", str, "Bootstrap admin key. Default: made at the first start, kept in DATA_DIR/admin.key."),
    Row("SECRET_KEY", "", str, "Signs links and the dashboard's cookie; the same on every host. Default: made at first use, kept in DATA_DIR/secret.key."),
    Row("WEB_PROCESSES", "1", some, "Web server processes."),
    Row("WEB_THREADS", "8", some, "Threads in each web process. Waiting clients need none."),
    Row("WORKERS", "2", count, "Worker processes on this machine."),
    Row("QUEUES", "default", words, "Queues that this machine's workers serve; WORKERS processes for each."),
    Row("MAX_WATCHERS", "10000", count, "Streams and long polls held at once by one web process."),
    Row("RETENTION", "30d", duration, "How long a finished job is kept."),
    Row("RESOURCE_RETENTION", "90d", duration, "How long a resource and the artifacts it names are kept."),
    Row("UPLOAD_RETENTION", "24h", duration, "How long an upload is kept that no job uses."),
    Row("AUDIT_RETENTION", "365d", duration, "How long it is kept who did what."),
    Row("LINK_LIFETIME", "24h", duration, "How long a signed link works."),
    Row("TOMBSTONES", "90d", duration, "How long an expired job still answers 410 instead of 404."),
    Row("QUEUE_TTL", "7d", duration, "How long a job may wait for its first start."),
    Row("JOB_TIMEOUT", "1h", duration, "How long one attempt may run, where neither job nor type says otherwise."),
    Row("CONCURRENCY", "", limits, "How many jobs of a type may run at once, over all workers, where that is not to be what the type says: video.transcode=2, for instance; 0 is no limit."),
    Row("MAX_ATTEMPTS", "3", some, "Attempts per job, where neither job nor type says otherwise."),
    Row("LEASE", "30", duration, "An attempt whose heartbeat stands still for this long is lost."),
    Row("HEARTBEAT", "5", duration, "How often a worker renews the lease of the job it runs."),
    Row("LONGEST_TURN", "10", duration, "A process that holds the turn to write to the database for longer is ended: nobody else could write."),
    Row("GRACE", "10", duration, "How long a cancelled job may take to stop before it is killed."),
    Row("DRAIN", "30", duration, "How long a stopping worker lets its job run before handing it back."),
    Row("KEEPALIVE", "15", duration, "Silence after which a stream gets a comment and a silent job a new version."),
    Row("MAX_BODY", "1m", size, "Largest JSON request body."),
    Row("MAX_UPLOAD", "2g", size, "Largest uploaded file."),
    Row("MAX_RESULT", "8m", size, "Largest result of a job."),
    Row("RATE_LIMIT", "3000", count, "Requests a minute for each key and web process; 0 turns the limit off."),
    Row("RETRY_AFTER", "5", duration, "What Retry-After says to Azure's clients while nothing tells how long a job will take."),
    Row("REQUIRE_IDEMPOTENCY_KEY", "0", switch, "Refuse submissions without an Idempotency-Key."),
    Row("CALLBACK_TIMEOUT", "15", duration, "How long a receiver may take to answer a callback."),
    Row("ALLOWED_TARGETS", "", words, "Hosts, CIDRs, or either with :port, that outbound requests may reach although they are not public."),
    Row("CORS_ORIGINS", "", origins, "Origins whose pages may call the API; * for any, without credentials."),
    Row("JOB_MODULES", "", words, "Folders with the team's own job types, one Python file each."),
    Row("DATA_SOURCES", "", str, "TOML file with the data sources and queries of report.export."),
    Row("ARTICLES_DIR", "", folder, "Folder with the articles of article.export: a folder of Markdown files for each topic."),
    Row("FONTS_DIR", "", folder, "Folder with more typefaces for the PDFs of article.export, for scripts and emoji that the bundled ones lack."),
    Row("RENDER_TIMEOUT", "2m", duration, "How long article.export may take to set its articles."),
    Row("RENDER_MEMORY", "1g", size, "How much memory article.export may take to set its articles."),
    Row("COMMANDS", "", str, "TOML file with the operator's commands, each a job type command.NAME."),
    Row("DRILLS", "1", switch, "Offer demo.drill, the job type that plays any fate."),
    Row("ISOLATE", "0", switch, "Fork a fresh process for every job instead of reusing a warm one."),
    Row("PUBLIC_METRICS", "0", switch, "Serve /metrics without a key."),
    Row("FFMPEG", "", str, "The ffmpeg to use instead of the bundled one."),
    Row("TEST_CLOCK", "", str, "For tests: a file with an offset in seconds that is added to the clock."),
)


class Settings:
    """The settings in force, as lower-case attributes: `settings.data_dir`, `settings.lease` (durations in seconds)."""

    def __init__(self, values: Mapping[str, Any], source: Mapping[str, str]):
        self.__dict__.update({name.lower(): value for name, value in values.items()})
        self.environment = dict(source)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "environment" or "environment" in self.__dict__:
            raise AttributeError("settings do not change while the server runs")
        super().__setattr__(name, value)

    @property
    def base_url(self) -> str:
        """The URL by which clients reach the server, without a slash at its end."""
        if self.public_url:
            return self.public_url.rstrip("/")
        # Nobody can call an address that means "all of mine"; this machine's name is the best guess without PUBLIC_URL.
        host = socket.gethostname() if self.bind in ("", "0.0.0.0", "::") else self.bind
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def load(environ: Mapping[str, str] = os.environ, **overrides: str) -> Settings:
    """Read the settings; `overrides` (`port="0"`) win over the environment. SettingsError names every fault at once."""
    given = {name[len(PREFIX):]: text for name, text in environ.items() if name.startswith(PREFIX)}
    given = {name: text for name, text in given.items() if name not in OF_CLIENTS}
    given |= {name.upper(): str(text) for name, text in overrides.items()}
    rows = {row.name: row for row in TABLE}
    faults = [_unknown(name, rows) for name in given if name not in rows]
    values = {}
    for row in TABLE:
        text = given.get(row.name, row.default)
        try:
            values[row.name] = row.parse(text if text.strip() else row.default)
        except ValueError as error:
            faults.append(f"{PREFIX}{row.name}={text!r}: {error}")
    if not faults and values["HEARTBEAT"] >= values["LEASE"]:
        faults.append(f"{PREFIX}HEARTBEAT: must be shorter than {PREFIX}LEASE, or every attempt is taken for lost")
    if faults:
        raise SettingsError("\n".join(faults))
    values["DATA_DIR"] = values["DATA_DIR"].expanduser().absolute()
    return Settings(values, {f"{PREFIX}{name}": text for name, text in given.items()})


def _unknown(name: str, rows: Mapping[str, Row]) -> str:
    close = difflib.get_close_matches(name, rows, n=1)
    hint = f"; did you mean {PREFIX}{close[0]}?" if close else "; docs/settings.md lists them all"
    return f"{PREFIX}{name} is not a setting{hint}"
