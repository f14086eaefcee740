"""Which job is next."""

from jobs.core.outcome import Succeeded
from jobs.core.states import Priority
from jobs.core import lifecycle
from tests.core import given


def claims(db, number):
    return [given.claimed(db) for _ in range(number)]


def test_nothing_to_do(db):
    assert given.claimed(db) is None


def test_first_come_first_served(db):
    ids = [given.queued(db).id for _ in range(5)]
    assert [row.id for row in claims(db, 5)] == ids


def test_the_more_urgent_goes_first(db):
    low, normal, high = (given.queued(db, priority=priority).id for priority in (Priority.LOW, Priority.NORMAL, Priority.HIGH))
    assert [row.id for row in claims(db, 3)] == [high, normal, low]


def test_owners_take_turns_however_much_one_of_them_asks(db):
    for owner in ["alice"] * 6 + ["bob"] * 2 + ["charlie"]:
        given.queued(db, owner=owner)
    first = [row.owner for row in claims(db, 3)]
    assert sorted(first) == ["alice", "bob", "charlie"]


def test_owners_take_turns_when_one_job_runs_at_a_time(db):
    for owner in ["alice"] * 3 + ["bob"] * 3:
        given.queued(db, owner=owner)
    served = []
    for _ in range(6):
        row = given.claimed(db)
        served.append(row.owner)
        db.write(lambda tx: lifecycle.settle(tx, row.id, row.attempt, Succeeded("1")))
    assert served == ["alice", "bob"] * 3


def test_a_job_is_not_started_before_its_time_and_blocks_nobody(db):
    given.queued(db, not_before="2999-01-01T00:00:00.000Z", priority=Priority.HIGH)
    other = given.queued(db)
    assert given.claimed(db).id == other.id
    assert given.claimed(db) is None


def test_queues_are_apart(db):
    gpu = given.queued(db, queue="gpu")
    assert given.claimed(db) is None
    assert given.claimed(db, queue="gpu").id == gpu.id


def test_a_type_at_its_limit_waits_and_lets_others_pass(db):
    for _ in range(3):
        given.queued(db, type="video.transcode")
    other = given.queued(db)
    limits = {"video.transcode": 2}
    assert [given.claimed(db, limits=limits).type for _ in range(3)] == ["video.transcode"] * 2 + ["demo.drill"]
    assert given.claimed(db, limits=limits) is None
    assert given.row_of(db, other.id).status == "running"


def test_parallel_claims_never_share_a_job(db):
    import threading

    ids = {given.queued(db).id for _ in range(60)}
    found, lock = [], threading.Lock()

    def work():
        while (row := given.claimed(db)) is not None:
            with lock:
                found.append(row.id)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(ids)
