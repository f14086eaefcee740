"""What lies about on a machine goes, whether its dispatcher leads or not."""

import os
import time

from tests.work.house import House, wait_for


def test_a_dispatcher_that_does_not_lead_sweeps_its_machine(tmp_path):
    with House(tmp_path) as house:
        work = house.settings.data_dir / "work"

        def leave(name):
            (work / name).mkdir(parents=True)
            os.utime(work / name, (time.time() - 7200,) * 2)
            return work / name

        first = leave("98-kept")
        house.start("dispatcher")
        wait_for(lambda: not first.exists(), what="the leader's sweep")
        second = leave("99-kept")
        house.start("dispatcher")
        wait_for(lambda: not second.exists(), what="the other's sweep")
