"""What a waiting client costs: bytes of the server's memory for each, and how long until the last of N is served.

    python bench/watchers.py [N]            default 1,000 streams; also prints long polls, and N against N / 10

One real web process, a private Valkey, SQLite in a temporary folder; about 20 seconds. Look at the ratios: the times are
this machine's.
"""

import resource
import selectors
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.stack import wait_for  # noqa: E402
from tests.web.conftest import Live  # noqa: E402


def memory(pid: int) -> int:
    """Resident bytes of a process that are its own."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(pages[1]) - int(pages[2])) * resource.getpagesize()


def measure(live: Live, number: int, path: str) -> tuple[float, float]:
    """(bytes each, seconds until the last of `number` clients has got the end of a job)."""
    job = live.running()
    before = memory(live.worker_pid())
    clients = [live.open(path.format(id=job.id)) for _ in range(number)]
    wait_for(lambda: live.facts()["seats"] == number, 30)
    each = (memory(live.worker_pid()) - before) / number
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client, selectors.EVENT_READ)
        began = time.perf_counter()
        live.finish(job)
        while selector.get_map():
            for key, _ in selector.select():
                data = key.fileobj.recv(65536)
                if not data or b"succeeded" in data:
                    selector.unregister(key.fileobj)
        seconds = time.perf_counter() - began
    for client in clients:
        client.close()
    wait_for(lambda: live.facts()["seats"] == 0, 30)
    return each, seconds


def main(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 3 * number + 500)), hard))
    with tempfile.TemporaryDirectory() as folder:
        live = Live(Path(folder), keepalive="15", max_watchers=str(number + 1)).start()
        try:
            measure(live, 50, "/jobs/{id}/events")  # warms up
            for name, path in (("streams", "/jobs/{id}/events"), ("long polls", "/jobs/{id}?wait=50")):
                few_each, few = measure(live, number // 10, path)
                each, all_ = measure(live, number, path)
                print(f"{name}: {number} cost {each:,.0f} bytes each; the last was served after {all_ * 1000:.0f} ms, "
                      f"{all_ / few:.1f} times as long as the last of {number // 10}")
        finally:
            live.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
