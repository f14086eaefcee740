"""Start the whole server: data folder, socket, database, admin key; then the supervised parts."""

import errno
import os
import shlex
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass

from jobs import clock, data_folder, embedded_redis, leash
from jobs import settings as settings_of
from jobs.addresses import AllowList
from jobs.core import access, schema
from jobs.data_folder import DataFolder
from jobs.db import Database
from jobs.errors import StorageUnavailable
from jobs.settings import Settings, SettingsError
from jobs.supervisor import Part, Supervisor


class CannotStart(Exception):
    """The server cannot start, for a reason that its operator can mend."""


@dataclass(frozen=True)
class Doors:
    """What a person needs to come in: the one-time sign-in link, and the admin's key as a shell expression."""

    sign_in: str
    key: str


def serve(verbose: bool = False) -> int:
    """Run the server until a signal comes; returns the exit code. SettingsError or CannotStart if it cannot begin."""
    settings = settings_of.load()
    AllowList(settings.allowed_targets)  # an entry that cannot be read stops the start
    try:
        folder = DataFolder.take(settings.data_dir)
        if not settings.database_url:
            data_folder.refuse_network(settings.data_dir)
        listener = _listen(settings)
        settings = settings_of.load(port=listener.getsockname()[1])
        redis, settings = _redis(settings)
        _prepare(settings)
        database = Database(settings)
        doors = open_doors(settings, database)
        database.close()
    except (data_folder.Unusable, embedded_redis.NoRedis) as error:
        raise CannotStart(str(error)) from error
    except StorageUnavailable as error:
        raise CannotStart(f"The database cannot be used: {error}") from error

    folder.sign(loopback_url(settings))
    supervisor = Supervisor(_environment(settings), settings.drain + 5, verbose)
    supervisor.ticks = [_TurnWatch(database, supervisor, settings.longest_turn),
                        _Readiness(settings, supervisor, _welcome(settings, doors))]
    for part in [*redis, *_parts(settings, listener)]:
        supervisor.add(part)
    code = supervisor.run()
    if supervisor.failure:
        print(supervisor.failure, file=sys.stderr)
    return code


def _prepare(settings: Settings) -> None:
    """Check the job types and make the schema; CannotStart says what is wrong.

    In a child, so that the libraries which only this needs do not stay in the supervisor's memory.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        fault = "The preparation failed; the lines above say how."
        try:
            fault = _fault_of(settings)
        except KeyboardInterrupt:       # Ctrl-C reaches us both; the parent ends the start
            fault = "The start was interrupted."
        except BaseException:
            traceback.print_exc()
        finally:
            os.write(writer, fault.encode()[:4000])
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8", errors="replace") as answer:
        fault = answer.read()
    _, status = os.waitpid(pid, 0)
    if fault or status:
        raise CannotStart(fault or f"The preparation of the database ended with {status}.")


def _fault_of(settings: Settings) -> str:
    from jobs.artifacts.store import open_store
    from jobs.types import ffmpeg, load_registry
    from jobs.work.job_type import DeclarationError

    try:
        for declared in load_registry(settings):
            if declared.at_start:
                declared.at_start(settings)
        open_store(settings)
        if settings.ffmpeg and (fault := ffmpeg.fault(settings.ffmpeg)):
            return (f"ACCEPTED_FFMPEG={settings.ffmpeg}: {fault}. "
                    "Name an ffmpeg with libx264 and aac, or leave the setting out: one is bundled.")
        _make_schema(settings)
    except DeclarationError as error:
        return f"A job type cannot work. {error}"
    except SettingsError as error:
        return str(error)
    except StorageUnavailable as error:
        return f"The database cannot be used: {error}"
    except ModuleNotFoundError as error:
        return f"The package {error.name} is missing. For PostgreSQL: ./run install postgres"
    return ""


def bring_up(database: Database, settings: Settings) -> None:
    """Make the tables that this release has more than the database. StorageUnavailable."""
    if schema.is_current(database):
        return
    from sqlalchemy.exc import SQLAlchemyError

    from jobs.core import models
    from jobs.webhooks import models as _tables_of_callbacks  # noqa: F401 - part of the schema
    try:
        models.create(settings)
    except SQLAlchemyError as error:
        raise StorageUnavailable(str(error)) from error
    database.write(schema.note)
    database.write(schema.jump)


def _make_schema(settings: Settings) -> None:
    """The tables of this release; the version jumps at every start."""
    database = Database(settings)
    bring_up(database, settings)
    database.write(schema.jump)
    database.close()


def loopback_address(settings: Settings) -> tuple[str, int]:
    """Where this machine itself reaches the server, whatever the public URL is."""
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.bind, settings.bind), settings.port


def loopback_url(settings: Settings) -> str:
    """The same as a URL."""
    host, port = loopback_address(settings)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _redis(settings: Settings) -> tuple[list[Part], Settings]:
    """The embedded Redis, unless one is configured, and the settings that name it."""
    if settings.redis_url:
        return [], settings
    path = embedded_redis.socket_path(settings)
    embedded_redis.shut_down_stale(path)
    part = Part("redis", embedded_redis.command(path), quiet=True, last=True)
    return [part], settings_of.load(port=settings.port, redis_url=embedded_redis.url(path))


def _parts(settings: Settings, listener: socket.socket) -> list[Part]:
    """What runs beside Redis, in order of starting."""
    cli = [sys.executable, "-m", "jobs.cli"]
    web = [sys.executable, "-m", "gunicorn", "-c", "python:jobs.gunicorn_conf", "wsgi:app",
           "--bind", f"fd://{listener.fileno()}"]
    workers = [
        Part(f"{queue} {number}", [*cli, "worker", "--queue", queue])
        for queue in settings.queues for number in range(1, settings.workers + 1)
    ]
    return [Part("web", web, pass_fds=(listener.fileno(),)), Part("dispatcher", [*cli, "dispatcher"]), *workers]


def _environment(settings: Settings) -> Mapping[str, str]:
    """Ours, with the settings as they are in force. The admin's key is for this process alone: no handler sees it."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(settings_of.PREFIX)}
    secret = settings_of.PREFIX + "ADMIN_KEY"
    return outside | {name: value for name, value in settings.environment.items() if name != secret}


def _listen(settings: Settings) -> socket.socket:
    """The listening socket. It is ours, so that a web process can die and come back without refusing a client."""
    try:
        family, _, _, _, address = socket.getaddrinfo(settings.bind or None, settings.port, type=socket.SOCK_STREAM,
                                                      flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        where = f"{settings.bind}:{settings.port}"
        if error.errno == errno.EADDRINUSE:
            raise CannotStart(f"Port {settings.port} is in use: something already listens on {where}. "
                              "Stop it, or set ACCEPTED_PORT to another port (0 picks a free one).") from error
        raise CannotStart(f"Cannot listen on {where} ({error.strerror}). "
                          "ACCEPTED_BIND and ACCEPTED_PORT say where.") from error


def open_doors(settings: Settings, database: Database) -> Doors:
    """Make sure that the admin's key works, and make a sign-in link with it."""
    token, shell = _admin_key(settings)

    def write(tx):
        return access.make_sign_in_link(tx, access.ensure_key(tx, token, "admin", access.Role.ADMIN, "bootstrap"))

    return Doors(f"{settings.base_url}/ui/sign-in/{database.write(write)}", shell)


def _admin_key(settings: Settings) -> tuple[str, str]:
    """The admin's key, made and kept in a file at the first start unless it is configured, and how a shell names it."""
    if settings.admin_key:
        return settings.admin_key, "$ACCEPTED_ADMIN_KEY"
    file = settings.data_dir / "admin.key"
    if not file.exists():
        draft = file.with_suffix(f".{os.getpid()}")
        with open(draft, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
            out.write(access.new_token() + "\n")
        draft.rename(file)
    return file.read_text().strip(), f"$(cat {shlex.quote(str(file))})"


def _welcome(settings: Settings, doors: Doors) -> str:
    """What is printed when the web answers."""
    payload = '{"type": "demo.drill", "payload": {"seconds": 10, "steps": 20}}'
    submit = f"""curl {settings.base_url}/v1/jobs -H "Authorization: Bearer {doors.key}" \\
                 -H "Content-Type: application/json" -d '{payload}'"""
    hint = "" if settings.public_url or settings.bind not in ("0.0.0.0", "::") else """
  Other machines cannot follow links to this address: set ACCEPTED_PUBLIC_URL to the one by which they reach it.
"""
    look = f"""curl {settings.base_url}/v1/job-types -H "Authorization: Bearer {doors.key}\""""
    return f"""
  Accepted is running.

  Dashboard      {settings.base_url}/ui
  Sign in        {doors.sign_in}
                 (works once, within the hour; `./run sign-in` makes another)
  Try it         {submit if settings.drills else look}
  Data           {settings.data_dir}
{hint}
  Ctrl-C stops it.
"""


class _TurnWatch:
    """A tick that kills a process of ours which holds the turn to write for too long: nobody else could write."""

    def __init__(self, database: Database, supervisor: Supervisor, longest: float):
        self._database, self._supervisor, self._longest = database, supervisor, longest
        self._seen: tuple[int, int] | None = None
        self._since = 0.0

    def __call__(self) -> None:
        holder = self._database.turn_holder()
        if holder != self._seen:
            self._seen, self._since = holder, clock.monotonic()
        elif holder and clock.monotonic() - self._since >= self._longest and leash.descends(holder[0], os.getpid()):
            os.kill(holder[0], signal.SIGKILL)
            self._supervisor.say(
                "watch", f"process {holder[0]} held the turn to write for {self._longest:g} s and was killed")


class _Readiness:
    """A tick that asks /livez until it is well, then says so.

    The socket is ours and open: a question waits there for the web to come up.
    """

    def __init__(self, settings: Settings, supervisor: Supervisor, welcome: str):
        self._address, self._supervisor, self._welcome = loopback_address(settings), supervisor, welcome
        self._idle = True

    def __call__(self) -> None:
        if not self._idle:
            return
        self._idle = False
        question = socket.create_connection(self._address, timeout=1)
        question.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self._supervisor.when_readable(question, lambda: self._heard(question))

    def _heard(self, question: socket.socket) -> None:
        with question:
            try:
                well = question.recv(64).split(b" ")[1:2] == [b"200"]
            except OSError:
                well = False
        if well:
            print(self._welcome, flush=True)
        else:
            self._idle = True       # ask again at the next tick
