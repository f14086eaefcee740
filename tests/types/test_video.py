"""The declaration of video.transcode: what is judged at submission."""

import subprocess
import sys

import pytest
from marshmallow import ValidationError

from jobs.types.video import transcode_video

SOURCE = "/v1/artifacts/7/content"


def test_a_good_payload_makes_a_placeholder_with_its_source():
    loaded = transcode_video.schema.load({"sourceUrl": SOURCE, "transcode": ["720p", "240p"], "mp4": True})
    assert transcode_video.resource(loaded) == {"sourceUrl": SOURCE}
    assert transcode_video.inputs == {"sourceUrl"}


@pytest.mark.parametrize(("payload", "faults"), [
    ({"sourceUrl": SOURCE}, {"transcode"}),
    ({"transcode": ["720p"]}, {"sourceUrl"}),
    ({"sourceUrl": SOURCE, "transcode": []}, {"transcode"}),
    ({"sourceUrl": SOURCE, "transcode": "720p"}, {"transcode"}),
    ({"sourceUrl": 7, "transcode": ["720p"]}, {"sourceUrl"}),
    ({"sourceUrl": SOURCE, "transcode": ["720p"], "mp4": "yes"}, {"mp4"}),
    ({"sourceUrl": SOURCE, "transcode": ["720p"], "codec": "av1"}, {"codec"}),
])
def test_a_bad_payload_is_refused_by_member(payload, faults):
    with pytest.raises(ValidationError) as refused:
        transcode_video.schema.load(payload)
    assert set(refused.value.messages) == faults


@pytest.mark.parametrize(("renditions", "place"), [(["720p", "721p"], 1), (["720p", "480p", "720p"], 2)])
def test_an_unknown_or_doubled_rendition_is_pointed_at(renditions, place):
    from jobs.web.schemas import pointers
    with pytest.raises(ValidationError) as refused:
        transcode_video.schema.load({"sourceUrl": SOURCE, "transcode": renditions})
    assert [entry["pointer"] for entry in pointers(refused.value.messages)] == [f"#/transcode/{place}"]


def test_nothing_heavy_is_imported_for_the_declaration():
    code = "import sys, jobs.types.video; print('imageio_ffmpeg' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
