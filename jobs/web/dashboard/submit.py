"""New job: choose a type, fill in its form, and go straight to the job's page."""

import json
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from flask import Response, redirect, render_template, request, url_for
from werkzeug.datastructures import MultiDict
from werkzeug.formparser import FormDataParser

from jobs import clock
from jobs.artifacts import names, publish, records
from jobs.core import idempotency
from jobs.core.access import Caller
from jobs.core.idempotency import Claim
from jobs.errors import Problem
from jobs.web import auth, bodies, steering, submissions, uploads
from jobs.web.dashboard import again, forms
from jobs.web.dashboard.again import Earlier
from jobs.web.dashboard.protection import check_form, check_origin
from jobs.web.site import site
from jobs.web.uploads import Incoming
from jobs.work.job_type import JobType

_FORM_PARTS = 500_000  # bytes of a form that are not files
_OFFERED = ("priority", "notBefore", "maxAttempts", "timeout", "tags", "callbackUrl")
_PAYLOAD, _OPTIONS = "#/payload", "#/options"


def choose() -> Response | str:
    """Which type shall it be."""
    auth.submitter()
    types = list(site().registry)
    if len(types) == 1:
        return redirect(url_for("ui.new_job_of", type_name=types[0].name))
    return render_template("new.html", types=types)


def new(type_name: str) -> str:
    """The empty form, or filled in like an earlier job (`?like=501`)."""
    auth.submitter()
    declared = _declared(type_name)
    earlier = again.find(declared, request.args)
    if earlier:
        return _page(declared, earlier.form(), earlier=earlier, faults=earlier.unfit(), notes=again.notes(earlier))
    return _page(declared, MultiDict(), fresh=True, notes=again.notes(None) if again.wanted() else [])


def create(type_name: str) -> Response | tuple[str, int]:
    """Submit what the form says. Sent twice, it makes one job."""
    caller = auth.submitter()
    declared = _declared(type_name)
    check_origin()
    with ExitStack() as received, uploads.patience(4 * site().settings.keepalive):
        sent, files = _receive(received)
        check_form(sent)
        form = MultiDict(sent)
        try:
            for one in forms.inputs(declared):
                if one.kind == "file" and one.name in files:
                    form[forms.field_name(one)] = _keep(caller, *files[one.name])
            return redirect(url_for("ui.job", job_id=_submit(caller, declared, form, _once(sent, files))), 303)
        except Problem as problem:
            if problem.status not in (400, 422):
                raise
            return _page(declared, form, problem, earlier=again.find(declared, form)), 422


def upload() -> tuple[dict[str, str], int]:
    """Keep a file that is sent before its form; 201 and the address by which the form may name it."""
    caller = auth.submitter()
    check_form({"csrf": request.headers.get("X-CSRF", "")})
    return {"address": records.content_path(uploads.receive(caller))}, 201


def _submit(caller: Caller, declared: JobType, form: MultiDict, once: str | None) -> int:
    """The id of the job."""
    payload = bodies.parse(json.dumps(forms.read(forms.inputs(declared), form)).encode())
    earlier, options = again.find(declared, form), _options(form)
    payload = again.exchange(declared, payload, earlier)
    if earlier and earlier.may_retry and earlier.is_same(payload):
        asked = steering.prepare_retry(earlier.row, earlier.overrides(form, options), caller, options_at=_OPTIONS)
    else:
        asked = submissions.prepare(caller, declared, payload, options, at=_PAYLOAD, options_at=_OPTIONS)
    claim = Claim(caller.owner, "POST", request.path, once, once) if once else None
    return submissions.store(asked, claim).job.id


def _once(sent: MultiDict, files: dict[str, tuple[Incoming, str]]) -> str | None:
    """A key for what was sent: the same page with the same content means the same job, with other content another."""
    content = [sent.to_dict(flat=False), sorted((name, incoming.sha256) for name, (incoming, _) in files.items())]
    return f"form:{idempotency.fingerprint(content)}" if sent.get("once") else None


def _receive(received: ExitStack) -> tuple[MultiDict, dict[str, tuple[Incoming, str]]]:
    """The form's fields, and (file, its name) by the payload member it is for; what is not kept goes with `received`."""
    if request.mimetype != "multipart/form-data":
        return request.form, {}

    def open_part(total_content_length, content_type, filename, content_length=None) -> Incoming:
        incoming = Incoming(site().store.scratch / f"upload-{secrets.token_hex(8)}", site().settings.max_upload)
        received.callback(incoming.discard)
        return incoming

    parser = FormDataParser(stream_factory=open_part, max_form_memory_size=_FORM_PARTS, max_form_parts=1000,
                            silent=False)
    try:
        _, form, files = parser.parse(request.stream, request.mimetype, request.content_length, request.mimetype_params)
    except ValueError as error:
        raise Problem("bad-request", f"The form cannot be read: {error}") from None
    return form, {name.removeprefix("file."): (one.stream, one.filename) for name, one in files.items() if one.filename}


def _keep(caller: Caller, incoming: Incoming, name: str) -> str:
    """Make the received file an upload of the caller; the address by which the payload names it."""
    here = site()
    incoming.flush()
    row = publish.upload(here.db, here.store, here.settings, incoming.path, owner=caller.owner, name=names.clean(name),
                         media_type=publish.media_type_of(name), size=incoming.size, sha256=incoming.sha256,
                         expires_at=clock.after(here.settings.upload_retention))
    return records.content_path(row)


def _page(declared: JobType, form: MultiDict, problem: Problem | None = None, fresh: bool = False,
          earlier: Earlier | None = None, faults: dict[str, list[tuple[str, str]]] | None = None, notes: Sequence[str] = ()) -> str:
    faults = forms.faults(problem.extra.get("errors", ())) if problem else faults or {}
    known = forms.inputs(declared)
    shown = {forms.field_name(one) for one in known} | {f"option.{name}" for name in _OFFERED}
    elsewhere = [text for name, found in faults.items() if name not in shown for _, text in found]
    if problem and not faults:
        elsewhere = [problem.detail or problem.title]
    return render_template("new_job.html", declared=declared, inputs=known, form=form, faults=faults,
                           elsewhere=elsewhere, fresh=fresh, refused=bool(problem), earlier=earlier,
                           notes=notes, once=secrets.token_urlsafe(12),
                           max_upload=site().settings.max_upload)


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


def _declared(type_name: str) -> JobType:
    declared = site().registry.get(type_name)
    if declared is None:
        raise Problem("not-found")
    return declared
