"""Who leads, and how many tickets there are."""

import signal


def test_another_dispatcher_leads_when_the_leader_is_killed(house):
    leader = house.start("dispatcher")
    house.start("worker")
    assert house.finished(house.submit("test.pid")).status == "succeeded"     # so it does lead
    second = house.start("dispatcher")
    house.stop(leader, signal.SIGKILL)
    assert house.finished(house.submit("test.pid")).status == "succeeded"
    assert house.stop(second) == 0
