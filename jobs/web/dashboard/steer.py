"""Cancelling, retrying or purging many jobs, or one for good: a page that says what would happen, and then doing it."""

from collections import Counter
from typing import Any

from flask import Response, flash, redirect, render_template, request, url_for
from flask_babel import gettext, ngettext

from jobs.core import reads
from jobs.errors import Problem
from jobs.web import auth, bulk, filters
from jobs.web.dashboard import search
from jobs.web.dashboard.addresses import own_page
from jobs.web.dashboard.protection import check_form
from jobs.web.dashboard.shown import show
from jobs.web.site import site

_SAMPLE = 12  # jobs that the page names


def confirm(verb: str) -> Response | str:
    """What would become of the jobs that the address names."""
    caller, chosen = auth.submitter(), _chosen()
    back = own_page(request.args.get("back", "") or url_for("ui.job_list"))
    if chosen is None:
        flash(gettext("Choose the jobs first."))
        return redirect(back, 303)
    outcomes, _ = bulk.run(verb, chosen, caller, dry_run=True)
    able = [one.job_id for one in outcomes if one.problem is None]
    refused = Counter(one.problem.extra.get("jobStatus", "") for one in outcomes if one.problem)
    sample = reads.page(site().db.read(), _SAMPLE, owner=caller.scope, ids=tuple(able[:_SAMPLE])) if able else []
    return render_template("confirm.html", verb=verb, able=able, refused=refused, back=back,
                           jobs=show(sample, site().registry, caller), cut=len(outcomes) == bulk.MOST)


def carry_out(verb: str) -> Response:
    """Do it, to those jobs of the address that still allow it, and say what became of it."""
    check_form()
    caller, chosen = auth.submitter(), _chosen()
    if chosen is None:
        raise Problem("empty-filter")
    outcomes, _ = bulk.run(verb, chosen, caller)
    done = sum(one.problem is None for one in outcomes)
    flash(_said(verb, done))
    if len(outcomes) > done:
        flash(ngettext("%(num)s job was left as it is: its state did not allow it.",
                       "%(num)s jobs were left as they are: their state did not allow it.", len(outcomes) - done))
    made = [one.made for one in outcomes if one.made]
    if verb == "retry" and len(outcomes) == 1 and made:
        return redirect(url_for("ui.job", job_id=made[0]), 303)
    return redirect(own_page(request.form.get("back", "")), 303)


def _chosen() -> dict[str, Any] | None:
    """The jobs that the address means: those ticked, or all that fit its filter. None when it means none."""
    if request.args.get("all") == "1":
        return search.of_address().wanted()
    ids = [one for one in request.args.getlist("ids") if one.isascii() and one.isdigit() and len(one) < 19]
    return {"ids": tuple(map(int, ids[:filters.MAX_IDS]))} if ids else None


def _said(verb: str, done: int) -> str:
    if verb == "cancel":
        return ngettext("%(num)s job was cancelled or asked to stop.", "%(num)s jobs were cancelled or asked to stop.", done)
    if verb == "retry":
        return ngettext("%(num)s job is tried again, as a new job.", "%(num)s jobs are tried again, as new jobs.", done)
    return ngettext("%(num)s job was purged.", "%(num)s jobs were purged.", done)
