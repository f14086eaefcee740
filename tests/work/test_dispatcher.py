"""Who leads, and how many tickets there are."""

import signal

from jobs.core import claim, lifecycle
from jobs.core.outcome import Succeeded
from jobs.types import load_registry
from jobs.work.dispatcher import Dispatcher


def test_another_dispatcher_leads_when_the_leader_is_killed(house):
    leader = house.start("dispatcher")
    house.start("worker")
    assert house.finished(house.submit("test.pid")).status == "succeeded"     # so it does lead
    second = house.start("dispatcher")
    house.stop(leader, signal.SIGKILL)
    assert house.finished(house.submit("test.pid")).status == "succeeded"
    assert house.stop(second) == 0


def test_there_is_no_ticket_for_a_job_whose_type_is_at_its_limit(house):
    registry = load_registry(house.settings)
    dispatcher = Dispatcher(house.settings, registry)
    for _ in range(3):
        house.submit("test.limited")        # one at a time
    assert (dispatcher.dispatch(), dispatcher.dispatch()) == (1, 0)
    house.redis.delete("rq:queue:default")
    running = house.db.write(lambda tx: claim.claim_next(tx, "default", "me", registry.limits))
    assert (running.type, dispatcher.dispatch()) == ("test.limited", 0)
    house.submit("test.pid")
    assert dispatcher.dispatch() == 1
    house.db.write(lambda tx: lifecycle.settle(tx, running.id, running.attempt, Succeeded("1")))
    assert dispatcher.dispatch() == 1
    dispatcher._db.close()
