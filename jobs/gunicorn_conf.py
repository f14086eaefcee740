"""How gunicorn runs the web processes; the supervisor adds the socket. Read by `gunicorn -c python:jobs.gunicorn_conf`."""

from jobs import leash
from jobs import settings as _settings
from jobs.logs import set_up as _set_up_logs

_ours = _settings.load()
_set_up_logs()

worker_class = "jobs.live_worker.LiveWorker"
workers = _ours.web_processes
threads = _ours.web_threads
control_socket_disable = True       # it would be made under HOME
graceful_timeout = max(int(min(_ours.drain, 10)), 1)
keepalive = 15
forwarder_headers = ""              # else a client behind a proxy on this machine could say what path it asks for


def post_fork(arbiter, worker):
    """A web process dies with gunicorn's arbiter, and that with the supervisor."""
    leash.tie_to_parent(arbiter.pid)
