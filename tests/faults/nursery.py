"""Starts the server's processes by forking, so that a start takes a tenth of a second instead of two.

    python -m tests.faults.nursery FD       serves on the listening socket FD

Each line on stdin names the processes to start, by spaces: web, dispatcher, worker. They share a process group of their
own, whose number is answered on stdout; one `kill -9` of the group hits all of them at once. What is imported is shared;
nothing that talks to the database or to Redis is.
"""

import importlib
import os
import sys

from jobs import leash, settings, types


def web(fd: int) -> None:
    """gunicorn, as the supervisor starts it."""
    from gunicorn.app import wsgiapp
    sys.argv = ["gunicorn", "-c", "python:jobs.gunicorn_conf", "--bind", f"fd://{fd}", "wsgi:app"]
    wsgiapp.run()


def dispatcher(fd: int) -> None:
    from jobs.work import dispatcher
    dispatcher.main(settings.load(), types.load_registry(settings.load()))


def worker(fd: int) -> None:
    from jobs.work import worker
    worker.main(settings.load(), types.load_registry(settings.load()))


ROLES = {"web": web, "dispatcher": dispatcher, "worker": worker}


def main(fd: int) -> None:
    for name in ("app", "gunicorn.app.wsgiapp", "gunicorn.arbiter", "jobs.live_worker", "jobs.work.worker", "jobs.work.dispatcher"):
        importlib.import_module(name)
    for line in sys.stdin:
        group, ours = 0, os.getpid()
        for role in line.split():
            pid = os.fork()
            if not pid:
                os.setpgid(0, group)
                leash.tie_to_parent(ours)
                ROLES[role](fd)
                os._exit(0)
            os.setpgid(pid, group)
            group = group or pid
        print(group, flush=True)
        while True:     # the dead of earlier rounds
            try:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    break
            except ChildProcessError:
                break


if __name__ == "__main__":
    main(int(sys.argv[1]))
