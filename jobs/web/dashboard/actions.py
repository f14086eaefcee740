"""The buttons: cancel and retry. Plain forms, which lead back to a page that shows what became of it."""

from flask import Response, flash, redirect, url_for
from flask_babel import gettext

from jobs.errors import Problem
from jobs.web import auth, steering, submissions
from jobs.web.api import find
from jobs.web.dashboard.protection import check_form
from jobs.web.dashboard.told import told


def cancel(job_id: int) -> Response:
    """Cancel a job, or ask its worker to stop."""
    check_form()
    row = find(job_id)
    auth.steering(row.owner)
    try:
        steering.cancel_job(row)
    except Problem as problem:
        if problem.slug != "illegal-transition":
            raise
        flash(gettext("The job had ended before it could be cancelled."))
    return redirect(url_for("ui.job", job_id=job_id), 303)


def retry(job_id: int) -> Response:
    """Do the same again, as a new job, and show that one."""
    check_form()
    row = find(job_id)
    auth.steering(row.owner)
    try:
        asked = steering.prepare_retry(row, {})
    except Problem as problem:
        if problem.slug == "invalid-payload":
            return redirect(url_for("ui.new_job_of", type_name=row.type, like=job_id), 303)
        if problem.slug == "illegal-transition":
            flash(gettext("Only a job that failed, was cancelled or succeeded in part can be tried again."))
        else:
            flash(gettext("It cannot be tried again: %(reason)s", reason=told(problem.detail or problem.title)))
        return redirect(url_for("ui.job", job_id=job_id), 303)
    accepted = submissions.store(asked)
    return redirect(url_for("ui.job", job_id=accepted.job.id), 303)
