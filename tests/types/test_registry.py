"""The types that a server has, as its settings make them."""

import pytest

from jobs import settings
from jobs.types import load_registry
from jobs.work.job_type import DeclarationError, job_type


def test_heavy_types_run_one_at_a_time_unless_the_operator_says_otherwise():
    assert load_registry(settings.load({})).limits == {"video.transcode": 1, "ocr.read": 1, "url.fetch": 4}
    changed = load_registry(settings.load({}, concurrency="video.transcode=3, ocr.read=0, demo.drill=2"))
    assert changed.limits == {"video.transcode": 3, "demo.drill": 2, "url.fetch": 4}
    assert (changed.get("video.transcode").concurrency, changed.get("ocr.read").concurrency) == (3, None)


def test_a_limit_for_a_type_that_is_not_there_stops_the_start_with_a_hint():
    hint = "ACCEPTED_CONCURRENCY: there is no job type 'video.trancode'.* video.transcode"
    with pytest.raises(DeclarationError, match=hint):
        load_registry(settings.load({}, concurrency="video.trancode=2"))


def test_a_type_says_what_it_lacks_and_how_it_is_installed():
    @job_type("a.b", requires=("json", "no_such_library"), extra="sugar")
    def lacking(job):
        """Never."""

    @job_type("a.c", requires=("json",), extra="sugar")
    def whole(job):
        """Always."""

    assert lacking.unavailable == ("a.b needs no_such_library, which this server does not have. "
                                   "./run install sugar brings it.")
    assert whole.unavailable is None
