"""The door to write and the readers, on both databases, and what they do when something breaks."""

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jobs.core import idempotency, submission
from jobs.core.idempotency import Claim
from jobs.db import Database
from jobs.errors import StorageUnavailable
from tests.core import given
from tests.stack import ROOT, wait_for

on_sqlite = pytest.mark.parametrize("db", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("db", ["postgresql"], indirect=True)
COUNT = "UPDATE meta SET value = value + 1 WHERE name = 'horizon'"


def counted(db):
    return db.read().value("SELECT value FROM meta WHERE name = 'horizon'")


def queue_up(db, closures):
    """Let all closures wait at the door while it is held, so that one batch takes them; [(result, error)] in their order."""
    held, let_go, outcomes = threading.Event(), threading.Event(), [None] * len(closures)

    def hold(tx):
        held.set()
        assert let_go.wait(30)

    def call(number, closure):
        try:
            outcomes[number] = (db.write(closure), None)
        except BaseException as error:
            outcomes[number] = (None, error)

    threads = [threading.Thread(target=db.write, args=(hold,))]
    threads[0].start()
    assert held.wait(30)
    for number, closure in enumerate(closures):
        threads.append(threading.Thread(target=call, args=(number, closure)))
        threads[-1].start()
        wait_for(lambda: len(db._waiting) == number + 1, what="the closure to wait")
    let_go.set()
    for thread in threads:
        thread.join(60)
    return outcomes


def test_closures_that_wait_are_committed_together(db):
    seen = []

    def write(tx):
        seen.append(tx)
        return tx.run(COUNT)

    assert queue_up(db, [write] * 8) == [(1, None)] * 8
    assert len(set(map(id, seen))) == 1 and counted(db) == 8


class Stop(BaseException):
    """Not an Exception."""


@pytest.mark.parametrize("fault", [ValueError, Stop, "SELECT nothing", "INSERT INTO meta (name, value) VALUES ('version', 1)"])
def test_a_closure_that_fails_undoes_its_own_and_nobody_elses(db, fault):
    def fail(tx):
        tx.run(COUNT)
        tx.announce({"of": "the one that fails"})
        if isinstance(fault, str):
            tx.run(fault)
        raise fault

    def write(tx):
        tx.announce({"of": "the others"})
        return tx.run(COUNT)

    outcomes = queue_up(db, [write, fail, write])
    assert [outcomes[0], outcomes[2]] == [(1, None)] * 2
    assert isinstance(outcomes[1][1], Exception if isinstance(fault, str) else fault)
    assert counted(db) == 2 and db.rung == [{"of": "the others"}] * 2


def test_versions_of_a_batch_are_those_of_the_order_of_its_closures(db):
    outcomes = queue_up(db, [lambda tx: submission.accept(tx, given.asked()).job] * 5)
    versions = [job.version for job, _ in outcomes]
    assert versions == sorted(set(versions)) and [job.id for job, _ in outcomes] == [1, 2, 3, 4, 5]


def test_a_closure_cannot_go_through_the_door_again(db):
    with pytest.raises(RuntimeError):
        db.write(lambda tx: db.write(lambda tx: None))
    assert db.write(lambda tx: tx.run(COUNT)) == 1


def test_readers_do_not_write(db):
    with pytest.raises(Exception, match="read-?only"):
        db.read().value(COUNT + " RETURNING value")
    assert counted(db) == 0


def test_a_bell_that_cannot_be_rung_does_not_unsay_what_is_stored(db):
    def broken(message):
        raise OSError("nobody hears")

    db._announce = broken
    assert given.queued(db).id == 1
    assert given.row_of(db, 1).status == "queued"


def test_of_parallel_requests_with_one_key_one_makes_the_job(db):
    claim = Claim("alice", "POST", "/v1/jobs", "key", "fingerprint")
    outcomes = queue_up(db, [lambda tx: submission.accept(tx, given.asked(claim=claim))] * 6)
    assert {accepted.job.id for accepted, _ in outcomes} == {1}
    assert [accepted.replayed for accepted, _ in outcomes].count(False) == 1
    assert idempotency.find(db.read(), claim) == 1


# Forks


def in_child(work):
    """Run `work()` in a forked child; its answer as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writer, str(work()).encode())
        except BaseException as error:
            os.write(writer, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def test_a_child_of_a_parent_that_closed_writes_by_itself_and_the_parent_goes_on(db):
    db.write(lambda tx: tx.run(COUNT))
    db.close()
    assert in_child(lambda: db.write(lambda tx: tx.run(COUNT))) == "1"
    assert db.write(lambda tx: tx.run(COUNT)) == 1
    assert counted(db) == 3


def test_a_fork_with_the_database_open_does_no_harm(db):
    """On SQLite the child is refused: it would believe that it holds the parent's locks."""
    db.write(lambda tx: tx.run(COUNT))
    counted(db)
    assert in_child(lambda: db.write(lambda tx: tx.run(COUNT))) == ("RuntimeError" if db.dialect == "sqlite" else "1")
    assert db.write(lambda tx: tx.run(COUNT)) == 1
    assert counted(db) == (2 if db.dialect == "sqlite" else 3)


@on_postgres
def test_a_fork_in_the_middle_of_a_write_leaves_the_child_a_free_door(db):
    held, let_go = threading.Event(), threading.Event()
    holder = threading.Thread(target=db.write, args=(lambda tx: held.set() or let_go.wait(30),))
    holder.start()
    held.wait(30)
    threading.Timer(0.2, let_go.set).start()
    assert in_child(lambda: db.write(lambda tx: tx.run(COUNT))) == "1"
    holder.join(60)
    assert counted(db) == 1


# SQLite


@on_sqlite
def test_a_commit_that_the_disk_refuses_stores_nothing_and_the_next_works(db):
    """Files may not grow beyond a limit here, as on a full disk."""
    given.queued(db)
    log = db.path.with_name("accepted.db-wal").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log + 8192, before[1]))
    try:
        with pytest.raises(StorageUnavailable):
            given.queued(db, payload='"' + "x" * 100_000 + '"')
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [row.id for row in db.read().all("SELECT id FROM jobs")] == [1]
    assert len(db.rung) == 1
    assert given.queued(db).id == 2
    assert db.read().value("PRAGMA integrity_check") == "ok"


WRITER = """
import sys
from jobs import settings
from jobs.core import submission
from jobs.db import Database
from tests.core import given
db = Database(settings.load({}, data_dir=sys.argv[1]))
for _ in range(int(sys.argv[2])):
    db.write(lambda tx: submission.accept(tx, given.asked(payload='"' + "x" * 60_000 + '"')), durable=False)
"""


@on_sqlite
def test_the_log_stays_bounded_while_others_write(db):
    """60 MB pass through the log of three processes; the leader's checkpoints, inside the turn, let it begin anew."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, db.path.parent, "330"], cwd=ROOT) for _ in range(3)]
    largest, log = 0, db.path.with_name("accepted.db-wal")
    while any(writer.poll() is None for writer in writers):
        db.checkpoint()
        largest = max(largest, log.stat().st_size)
        threading.Event().wait(0.1)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert db.read().value("SELECT count(*) FROM jobs") == 990
    assert db.path.stat().st_size > 50_000_000
    assert largest < 36_000_000     # the backstop of 8,000 pages and one batch


HOLDER = """
import os, pathlib, sys, time
from jobs.turn import Turn
turn = Turn(pathlib.Path(sys.argv[1]))
turn.__enter__()
print("held", flush=True)
if sys.argv[2] == "fork" and os.fork() == 0:
    time.sleep(60)
time.sleep(60)
"""


@pytest.mark.parametrize("how", ["alone", "fork"])
def test_a_killed_holder_gives_its_turn_back_and_is_named_no_more(tmp_path, how):
    """Even when a child that it forked lives on."""
    from jobs.turn import Turn
    path = tmp_path / "turn.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, path, how], cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert holder.stdout.readline() == b"held\n"
        watcher = Turn(path)
        assert watcher.holder() == (holder.pid, 1)
        holder.kill()
        holder.wait()
        assert watcher.holder() is None
        with watcher:
            assert int.from_bytes(path.read_bytes()[:8], sys.byteorder) == os.getpid()
        assert watcher.holder() is None
    finally:
        for pid in (int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat")):
            try:
                if os.getsid(pid) == holder.pid:
                    os.kill(pid, 9)
            except ProcessLookupError:
                pass


# PostgreSQL


@pytest.fixture
def outside(db):
    """A connection of the operator's."""
    import psycopg

    with psycopg.connect(db.configuration.database_url.replace("+psycopg", ""), autocommit=True) as connection:
        yield connection


def terminate(outside, condition):
    """End the connections of this database that meet a condition, once there are any."""
    wait_for(lambda: outside.execute(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        f"AND pid <> pg_backend_pid() AND {condition}").fetchall(), what="the connection to end")


@on_postgres
def test_readers_and_the_door_outlive_their_connections(db, outside):
    db.write(lambda tx: tx.run(COUNT))
    counted(db)
    terminate(outside, "true")
    assert counted(db) == 1
    assert db.write(lambda tx: tx.run(COUNT)) == 1
    assert counted(db) == 2


@on_postgres
def test_a_connection_lost_within_a_transaction_stores_nothing(db, outside):
    def broken(tx):
        tx.run(COUNT)
        terminate(outside, "state = 'idle in transaction'")
        tx.run(COUNT)

    with pytest.raises(StorageUnavailable):
        db.write(broken)
    assert counted(db) == 0
    assert db.write(lambda tx: tx.run(COUNT)) == 1


@on_postgres
def test_a_version_is_seen_before_any_later_one_is_taken(db, outside):
    """Of two processes: the second waits at the door until the first has committed, however long that takes."""
    held, let_go = threading.Event(), threading.Event()
    other = Database(db.configuration)
    first = write_aside(db, lambda tx: (submission.accept(tx, given.asked()).job.version, held.set(), let_go.wait(30))[0])
    assert held.wait(30)
    second = write_aside(other, lambda tx: submission.accept(tx, given.asked()).job.version)
    try:
        wait_for(lambda: outside.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone(),
                 what="the second to wait")
    finally:
        let_go.set()
    assert first()[0] < second()[0]
    other.close()


def write_aside(db, closure):
    """Write in a thread; a function that gives (result, error)."""
    outcome = []

    def write():
        try:
            outcome.append((db.write(closure), None))
        except Exception as error:
            outcome.append((None, error))

    thread = threading.Thread(target=write)
    thread.start()
    return lambda: (thread.join(60), outcome[0])[1]


@on_postgres
def test_a_commit_whose_answer_was_lost_but_that_happened_is_a_success(db, outside):
    """The server waits for a standby that does not exist: it has committed and cannot say so."""
    outside.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    outside.execute("SELECT pg_reload_conf()")
    wait_for(lambda: outside.execute("SHOW synchronous_standby_names").fetchone()[0] == "nobody")
    try:
        ended = write_aside(db, lambda tx: submission.accept(tx, given.asked()).job.id)
        terminate(outside, "wait_event = 'SyncRep'")
        assert ended() == (1, None)
    finally:
        outside.execute("ALTER SYSTEM RESET synchronous_standby_names")
        outside.execute("SELECT pg_reload_conf()")
    assert given.row_of(db, 1).status == "queued" and len(db.rung) == 1


@on_postgres
def test_a_commit_whose_answer_was_lost_and_that_did_not_happen_is_none(db, outside):
    """A trigger holds the COMMIT up before it takes effect."""
    outside.execute("""
        CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION dawdle()""")
    try:
        ended = write_aside(db, lambda tx: submission.accept(tx, given.asked()).job.id)
        terminate(outside, "query = 'COMMIT' AND state = 'active'")
        result, error = ended()
        assert result is None and type(error) is StorageUnavailable
    finally:
        outside.execute("DROP FUNCTION dawdle() CASCADE")
    assert db.read().value("SELECT count(*) FROM jobs") == 0 and not db.rung


@on_postgres
def test_a_writer_that_stands_still_in_its_turn_loses_it(db, tmp_path):
    """The other process says that it has the turn and goes to sleep there."""
    script = ("import sys, time; from jobs import settings; from jobs.db import Database\n"
              "db = Database(settings.load({}, database_url=sys.argv[1], data_dir=sys.argv[2], longest_turn='1'))\n"
              "db.write(lambda tx: (tx.run(sys.argv[3]), print('held', flush=True), time.sleep(600)))")
    miser = subprocess.Popen([sys.executable, "-c", script, db.configuration.database_url, tmp_path, COUNT], cwd=ROOT,
                             stdout=subprocess.PIPE)
    try:
        assert miser.stdout.readline() == b"held\n"
        assert write_aside(db, lambda tx: tx.run(COUNT))() == (1, None)
        assert counted(db) == 1
    finally:
        miser.kill()
        miser.wait()
