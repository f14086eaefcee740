"""A small app on the live tier alone: real hub, database and doorbell, and views that show how the tier is called."""

import threading
from types import SimpleNamespace

from flask import Flask, Response, g, jsonify, request

from jobs import settings as settings_module
from jobs.core import access, reads
from jobs.db import Database
from jobs.doorbell import Doorbell
from jobs.errors import Problem
from jobs.web import watch
from jobs.web.hub import Hub


class CountingDatabase(Database):
    """Counts how often anybody asked for a reader; every SELECT of this app asks anew."""

    reads = 0

    def read(self):
        CountingDatabase.reads += 1
        return super().read()


def create_app() -> Flask:
    app = Flask(__name__)
    settings = settings_module.load()
    db = CountingDatabase(settings)
    hub = Hub(db, Doorbell(settings.redis_url), settings)
    app.extensions["accepted"] = SimpleNamespace(settings=settings, db=db, hub=hub)

    @app.before_request
    def identify():
        if request.endpoint != "facts":
            g.since = watch.position()
            g.caller = access.authenticate(db.read(), request.headers["Authorization"].removeprefix("Bearer "))
            if g.caller is None:
                return Response("who?", 401)

    @app.after_request
    def add_header(response):
        response.headers["X-Request-Id"] = request.headers.get("X-Request-Id", "none")
        response.vary.add("Origin")
        return response

    @app.errorhandler(Problem)
    def refuse(problem):
        return jsonify(problem.members("")), problem.status, problem.headers

    def answer_with(if_none_match):
        def respond(row):
            etag = f'"{row.version}"'
            if etag == if_none_match:
                return Response(status=304, headers={"ETag": etag, "Vary": "Prefer"})
            return Response(reads.render(row, ""), headers={"ETag": etag, "Vary": "Prefer"}, mimetype="application/json")
        return respond

    @app.get("/jobs/<int:job_id>")
    def job(job_id):
        row = reads.get(db.read(), job_id)
        condition = request.headers.get("If-None-Match")
        until = watch.moved_from(int(condition.strip('"'))) if condition else watch.is_terminal
        return watch.poll_job(row, g.caller, since=g.since, wait=request.args.get("wait", 0.0, float), until=until,
                              respond=answer_with(condition))

    @app.get("/jobs/<int:job_id>/events")
    def events(job_id):
        return watch.stream_job(reads.get(db.read(), job_id), g.caller, since=g.since,
                                last_event_id=request.headers.get("Last-Event-ID"))

    @app.get("/jobs/<int:job_id>/logs")
    def logs(job_id):
        return watch.follow_log(reads.get(db.read(), job_id), g.caller, since=g.since, after=request.args.get("after", 0, int),
                                last_event_id=request.headers.get("Last-Event-ID"))

    @app.get("/events")
    def all_events():
        return watch.stream_jobs(g.caller, since=g.since, last_event_id=request.headers.get("Last-Event-ID"))

    @app.get("/changes")
    def changes():
        cursor = request.args.get("since", g.since, int)
        rows = reads.changes(db.read(), cursor, 11, g.caller.scope)

        def respond(rows):
            page = rows[:10]
            return Response(f'{{"ids":{[row.id for row in page]},"next":{page[-1].version if page else cursor}}}',
                            mimetype="application/json")

        return watch.poll_changes(rows, g.caller, since=max(g.since, cursor), limit=10, respond=respond,
                                  wait=request.args.get("wait", 0.0, float))

    @app.get("/bytes/<int:number>")
    def many_bytes(number):
        return Response(b"x" * number)

    @app.get("/facts")
    def facts():
        return jsonify(threads=threading.active_count(), reads=CountingDatabase.reads, seats=hub.waiting)

    return app
