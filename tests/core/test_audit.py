"""The record of acts, on both databases."""

import pytest

from jobs.core import access, audit
from jobs.core.audit import Act, Actor, Door
from jobs.db import Database

ALICE, BOB = Actor("alice", Door.API, 1, "r1"), Actor("bob", Door.DASHBOARD)
YEAR = 365 * 86400


@pytest.fixture
def filled(db: Database) -> Database:
    """Ten acts of two people on five jobs."""

    def write(tx):
        for number in range(10):
            audit.note(tx, (ALICE, BOB)[number % 2], (Act.CANCEL, Act.PURGE)[number // 5], f"/v1/jobs/{number % 5}", "carol", n=number)

    db.write(write)
    return db


def numbers(rows) -> list[int]:
    return [audit.render(row)["detail"]["n"] for row in rows]


def test_acts_come_newest_first_and_page_by_page(filled):
    first = audit.page(filled.read(), 4)
    assert numbers(first) == [9, 8, 7, 6]
    assert numbers(audit.page(filled.read(), 10, before=first[-1].id)) == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(("wanted", "found"), [
    ({"act": "job.cancel"}, [4, 3, 2, 1, 0]), ({"actor": "bob"}, [9, 7, 5, 3, 1]), ({"subject": "/v1/jobs/3"}, [8, 3]),
    ({"owner": "carol", "actor": "alice", "act": "job.purge"}, [8, 6]), ({"owner": "dave"}, [])])
def test_acts_are_narrowed(filled, wanted, found):
    assert numbers(audit.page(filled.read(), 20, **wanted)) == found


def test_what_was_done_to_one_thing_is_told_in_order(filled):
    assert numbers(audit.of_subject(filled.read(), "/v1/jobs/3")) == [3, 8]


def test_an_act_says_by_which_key(db):
    def write(tx):
        token = access.make_key(tx, "alice", "admin", "her laptop", by=BOB)
        caller = access.authenticate(tx, token)
        access.revoke(tx, caller.key_id, Actor("alice", Door.API, caller.key_id, "r7"))
        return token

    token = db.write(write)
    revoked, made = (audit.render(row) for row in audit.page(db.read(), 10))
    assert revoked["key"] == {"id": revoked["subject"].rpartition("/")[2], "name": "her laptop", "hint": token[:8]}
    assert (revoked["act"], revoked["requestId"], revoked["door"], made["key"], made["owner"]) == (
        "key.revoke", "r7", "api", None, "alice")
    assert token not in str(made)


def test_an_act_that_fails_leaves_no_line(filled):
    def write(tx):
        audit.note(tx, ALICE, Act.PURGE, "/v1/jobs/1", "carol", n=99)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        filled.write(write)
    assert len(audit.page(filled.read(), 20)) == 10


def test_only_what_is_old_is_forgotten(filled):
    filled.write(lambda tx: tx.run("UPDATE audit SET at = '2001-01-01T00:00:00.000Z' WHERE id <= (SELECT min(id) + 5 FROM audit)"))
    assert filled.write(lambda tx: audit.forget(tx, YEAR, limit=4)) == 4
    assert filled.write(lambda tx: audit.forget(tx, YEAR)) == 2
    assert filled.write(lambda tx: audit.forget(tx, YEAR)) == 0
    assert numbers(audit.page(filled.read(), 20)) == [9, 8, 7, 6]
