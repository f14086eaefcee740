"""New job: choose a type, fill in its form, and go straight to the job's page."""

import hashlib
import json
import secrets
import tempfile
from pathlib import Path
from typing import Any

from flask import Response, redirect, render_template, request, url_for
from flask_babel import gettext
from werkzeug.datastructures import FileStorage, MultiDict

from jobs import clock
from jobs.artifacts import names, publish, records
from jobs.core import access, idempotency
from jobs.core.idempotency import Claim
from jobs.errors import Problem
from jobs.web import auth, bodies, submissions
from jobs.web.api import find
from jobs.web.dashboard import forms
from jobs.web.dashboard.protection import check_form
from jobs.web.site import site
from jobs.work.job_type import JobType

_FORM_PARTS = 500_000  # bytes of a form that are not files
_PAYLOAD, _OPTIONS = "#/payload", "#/options"


def choose() -> Response | str:
    """Which type shall it be."""
    auth.submitter()
    types = list(site().registry)
    return redirect(url_for("ui.new_job_of", type_name=types[0].name)) if len(types) == 1 else render_template("new.html", types=types)


def new(type_name: str) -> str:
    """The empty form, or filled in like an earlier job (`?like=501`)."""
    auth.submitter()
    declared = _declared(type_name)
    form = MultiDict()
    if request.args.get("like", "").isdigit():
        row = find(int(request.args["like"]))
        if row.type == declared.name:
            form = forms.written(forms.inputs(declared), json.loads(row.payload))
    return _page(declared, form, fresh=not form)


def create(type_name: str) -> Response | tuple[str, int]:
    """Submit what the form says. Sent twice, it makes one job."""
    caller = auth.submitter()
    declared = _declared(type_name)
    request.max_content_length = site().settings.max_upload + _FORM_PARTS
    request.max_form_memory_size = _FORM_PARTS
    check_form()
    known, form = forms.inputs(declared), MultiDict(request.form)
    try:
        for one in known:
            given = request.files.get(f"file.{one.name}")
            if one.kind == "file" and given and given.filename:
                form[forms.field_name(one)] = _keep(caller, given)
        payload = bodies.parse(json.dumps(forms.read(known, form)).encode())
        asked = submissions.prepare(caller, declared, payload, _options(form), at=_PAYLOAD, options_at=_OPTIONS)
    except Problem as problem:
        if problem.status not in (400, 422):
            raise
        return _page(declared, form, problem), 422
    once = f"{form.get('once', '')[:64]}:{idempotency.fingerprint(request.form.to_dict(flat=False))[:32]}"
    claim = Claim(caller.owner, "POST", request.path, once, idempotency.fingerprint(payload)) if form.get("once") else None
    accepted = submissions.store(asked, claim)
    return redirect(url_for("ui.job", job_id=accepted.job.id), 303)


def _page(declared: JobType, form: MultiDict, problem: Problem | None = None, fresh: bool = False) -> str:
    faults: dict[str, list[str]] = {}
    for one in problem.extra.get("errors", ()) if problem else ():
        faults.setdefault(_field_of(one["pointer"]), []).append(one["detail"])
    known = forms.inputs(declared)
    shown = {f"payload.{one.name}" for one in known} | {f"option.{name}" for name in ("priority", "notBefore", "tags", "maxAttempts",
                                                                                     "timeout", "callbackUrl")}
    elsewhere = [text for name, texts in faults.items() if name not in shown for text in texts]
    if problem and not faults:
        elsewhere = [problem.detail or problem.title]
    return render_template("new_job.html", declared=declared, inputs=known, form=form, faults=faults, elsewhere=elsewhere,
                           fresh=fresh, once=secrets.token_urlsafe(12))


def _field_of(pointer: str) -> str:
    """`#/payload/transcode/0` → `payload.transcode`: the field at which the message stands."""
    parts = pointer.split("/")
    return f"{'option' if parts[1:2] == ['options'] else 'payload'}.{parts[2]}" if len(parts) > 2 else ""


def _options(form: MultiDict) -> dict[str, Any]:
    """The options that every job has, as the API takes them."""
    found: dict[str, Any] = {}
    for name in ("priority", "callbackUrl"):
        if form.get(f"option.{name}", "").strip():
            found[name] = form[f"option.{name}"].strip()
    if form.get("option.notBefore", "").strip():
        found["notBefore"] = _instant(form["option.notBefore"].strip(), form.get("option.zone", ""))
    for name in ("maxAttempts", "timeout"):
        text = form.get(f"option.{name}", "").strip()
        if text:
            found[name] = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else text
    tags = [tag.strip() for tag in form.get("option.tags", "").replace("，", ",").split(",") if tag.strip()]
    return found | ({"tags": tags} if tags else {})


def _instant(text: str, minutes_west: str) -> str:
    """A date and time as a browser's field sends it, in the reader's zone if a script told its offset, else in UTC."""
    try:
        west = int(minutes_west or 0)
    except ValueError:
        west = 0
    if len(text) == 16:
        text += ":00"
    if "Z" in text or "+" in text or not -900 <= west <= 900:
        return text
    sign = "-" if west > 0 else "+"
    return f"{text}{sign}{abs(west) // 60:02}:{abs(west) % 60:02}"


def _keep(caller: access.Caller, given: FileStorage) -> str:
    """Store an uploaded file; the address by which the payload names it."""
    here = site()
    digest, size = hashlib.sha256(), 0
    here.store.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=here.store.scratch, delete=False) as target:
        while chunk := given.stream.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
            if size > here.settings.max_upload:
                Path(target.name).unlink()
                raise Problem("too-large", gettext("The file is too large."))
            target.write(chunk)
    row = publish.upload(here.db, here.store, here.settings, Path(target.name), owner=caller.owner,
                         name=names.clean(given.filename), media_type=publish.media_type_of(given.filename), size=size,
                         sha256=digest.hexdigest(), expires_at=clock.after(here.settings.upload_retention))
    return records.content_path(row)


def _declared(type_name: str) -> JobType:
    declared = site().registry.get(type_name)
    if declared is None:
        raise Problem("not-found")
    return declared
