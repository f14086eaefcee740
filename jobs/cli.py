"""The command line: `./run COMMAND`, or `python -m jobs.cli COMMAND`.

Exit codes: 0 done, or stopped by SIGTERM; 1 failed; 2 wrong usage or settings; 3 the server cannot start; 130 Ctrl-C.
"""

import getpass
import os
import sys
from datetime import timedelta
from pathlib import Path

import click

from jobs import clock, logs
from jobs import settings as settings_of

ROLES = ("submit", "read", "admin")


class _Commands(click.Group):
    """Turns what an operator can mend into one message and an exit code instead of a traceback."""

    def invoke(self, context: click.Context):
        from jobs.errors import StorageUnavailable
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            context.exit(130)
        except settings_of.SettingsError as error:
            click.echo(f"Wrong settings:\n{error}", err=True)
            context.exit(2)
        except StorageUnavailable as error:
            click.echo(f"The database cannot be used: {error}", err=True)
            context.exit(3)


@click.group(cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name=None, version=__import__("jobs").__version__, prog_name="Accepted")
@click.pass_context
def cli(context: click.Context) -> None:
    """Accepted: a job server that you host yourself. Without a command: start."""
    if context.invoked_subcommand is None:
        context.invoke(start)


@cli.command()
@click.option("-v", "--verbose", is_flag=True, help="Show everything that the processes log.")
def start(verbose: bool = False) -> None:
    """Run the server until Ctrl-C."""
    from jobs.serve import CannotStart, serve
    try:
        sys.exit(serve(verbose))
    except CannotStart as error:
        click.echo(str(error), err=True)
        sys.exit(3)


@cli.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--keep", is_flag=True, help="Let the server go on afterwards.")
def demo(file: Path | None, keep: bool) -> None:
    """Transcode FILE (or a clip made on the spot) and watch it happen.

    Uses the server of this data folder if it runs, else starts one for as long as the demo takes.
    """
    from jobs.demo import run
    sys.exit(run(file, keep))


@cli.command(hidden=True)
@click.option("--queue", default="default")
def worker(queue: str) -> None:
    """One worker process; `start` runs as many as the settings say."""
    from jobs.types import load_registry
    from jobs.work.worker import main
    logs.set_up()
    settings = settings_of.load()
    sys.exit(main(settings, load_registry(settings), queue))


@cli.command(hidden=True)
def dispatcher() -> None:
    """The dispatcher process; `start` runs it."""
    from jobs.types import load_registry
    from jobs.work.dispatcher import main
    logs.set_up()
    settings = settings_of.load()
    sys.exit(main(settings, load_registry(settings)))


@cli.group()
def key() -> None:
    """Make, list and revoke keys."""


@key.command("create")
@click.option("--owner", required=True, help="Whose jobs it submits and sees.")
@click.option("--role", type=click.Choice(ROLES), default="submit", show_default=True,
              help="submit: own jobs; read: sees all, changes nothing; admin: everything.")
@click.option("--name", default="", help="What it is for.")
@click.option("--expires", metavar="DURATION", help="When it ends, e.g. 24h or 90d. Default: never.")
def create_key(owner: str, role: str, name: str, expires: str | None) -> None:
    """Make a key and print it. It cannot be shown again."""
    from jobs.core import access
    if not access.OWNER.fullmatch(owner):
        raise click.BadParameter(f"an owner is {access.OWNER_FORM}", param_hint="--owner")
    try:
        end = clock.wire(clock.now() + timedelta(seconds=settings_of.duration(expires))) if expires else None
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(str(error), param_hint="--expires") from error
    actor = _actor()
    click.echo(_database()[0].write(lambda tx: access.make_key(tx, owner, role, name, end, by=actor)))


@key.command("list")
def list_keys() -> None:
    """Show every key; the keys themselves are not kept, only how they begin."""
    rows = _database()[0].read().all(
        "SELECT id, hint, owner, role, name, last_used_at, expires_at, revoked_at FROM keys ORDER BY id")
    form = "{:>4}  {:<10} {:<20} {:<7} {:<20} {:<25} {}"
    click.echo(form.format("ID", "KEY", "OWNER", "ROLE", "NAME", "LAST USED", "STATE"))
    for row in rows:
        state = "revoked" if row.revoked_at else f"until {row.expires_at}" if row.expires_at else "valid"
        if not row.revoked_at and row.expires_at and clock.seconds_until(row.expires_at) <= 0:
            state = "expired"
        used = row.last_used_at or "never"
        click.echo(form.format(row.id, f"{row.hint}…", row.owner, row.role, row.name, used, state))


@key.command("revoke")
@click.argument("id", type=int)
def revoke_key(id: int) -> None:
    """End the key with this ID (see `key list`); what it has open is closed."""
    from jobs.core import access
    actor = _actor()
    if not _database()[0].write(lambda tx: access.revoke(tx, id, actor)):
        raise click.ClickException(f"there is no valid key {id}")
    click.echo(f"key {id} is revoked")


@cli.group()
def secrets() -> None:
    """Rotate the secrets that sign callbacks."""


@secrets.command("rotate")
@click.option("--owner", help="Only those of one owner.")
@click.option("--origin", metavar="URL", help="Only that of this origin of callback URLs.")
@click.option("--endpoint", type=int, metavar="ID", help="Only that of this registered endpoint.")
@click.option("--now", is_flag=True, help="End the former secrets at once, for one that leaked; otherwise they sign for another day.")
def rotate_secrets(owner: str | None, origin: str | None, endpoint: int | None, now: bool) -> None:
    """Give receivers of callbacks new secrets. Their owners read them at /v1/callback-secrets or at the endpoint."""
    from jobs.addresses import BadTarget, parse_url
    from jobs.core import audit
    from jobs.webhooks import models, receivers  # noqa: F401 - the tables belong to the schema
    try:
        receiver = receivers.of_endpoint(endpoint) if endpoint else receivers.of_callback(parse_url(origin)) if origin else None
    except BadTarget as error:
        raise click.BadParameter(str(error), param_hint="--origin") from error
    overlap = 0 if now else receivers.OVERLAP
    actor = _actor()
    said = {"receiver": receiver, "now": now}

    def write(tx) -> int:
        number = receivers.rotate_all(tx, owner, receiver, overlap)
        if number:
            audit.note(tx, actor, audit.Act.ROTATE_SECRET, "/v1/callback-secrets", owner, number=number, **said)
        return number

    number = _database()[0].write(write)
    if not number:
        raise click.ClickException("there is no such secret")
    click.echo(f"new secrets: {number}; the former ones {'sign no more' if now else 'sign for another day'}")


@cli.command("sign-in")
def sign_in() -> None:
    """Print a new one-time link that signs in as the admin."""
    from jobs.data_folder import tenant
    from jobs.serve import open_doors
    database, settings = _database()
    running = tenant(settings.data_dir)
    if running and not settings.port:
        settings = settings_of.load(port=running["url"].rpartition(":")[2])
    click.echo(open_doors(settings, database).sign_in)
    if not running:
        click.echo(f"No server runs on {settings.data_dir} now; the link opens once one does.", err=True)


@cli.command("settings")
@click.option("--markdown", is_flag=True, help="As the table of docs/settings.md.")
def show_settings(markdown: bool) -> None:
    """List every setting: its value here, and what it means."""
    from jobs import settings_table
    click.echo(settings_table.markdown() if markdown else settings_table.listing(settings_of.load()))


def _database():
    """The database of the data folder, made or brought up to this release if need be, and the settings."""
    from jobs.db import Database
    from jobs.serve import bring_up
    settings = settings_of.load()
    database = Database(settings)
    if not settings.database_url:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    bring_up(database, settings)
    return database, settings


def _actor():
    """Who runs this command, for the audit."""
    from jobs.core.audit import Actor, Door
    try:
        name = getpass.getuser()
    except (KeyError, OSError):     # an account without a name, as containers have it
        name = str(os.getuid())
    return Actor(name, Door.COMMAND)


if __name__ == "__main__":
    cli(prog_name="./run")
