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


@pytest.mark.parametrize(("renditions", "places"), [
    (["720p", "721p"], [1]), (["audio", "480p", "audio"], [2]), (["720p", "999p", "720p"], [1, 2]), (["9p", "9p"], [0, 1]),
])
def test_each_unknown_or_doubled_rendition_is_pointed_at(renditions, places):
    from jobs.web.schemas import pointers
    with pytest.raises(ValidationError) as refused:
        transcode_video.schema.load({"sourceUrl": SOURCE, "transcode": renditions})
    assert [entry["pointer"] for entry in pointers(refused.value.messages)] == [
        f"#/transcode/{place}" for place in places]


def test_the_form_and_the_schema_know_the_renditions():
    from jobs.web.dashboard import forms
    from jobs.web.openapi import payload_schema
    names = ["2160p", "1440p", "1080p", "720p", "480p", "360p", "240p", "audio"]
    [field] = [one for one in forms.inputs(transcode_video) if one.name == "transcode"]
    assert (field.kind, list(field.choices)) == ("choices", names)
    member = payload_schema(transcode_video)["properties"]["transcode"]
    assert (member["items"]["enum"], member["minItems"], member["uniqueItems"]) == (names, 1, True)


def test_nothing_heavy_is_imported_for_the_declaration():
    code = "import sys, jobs.types.video; print('imageio_ffmpeg' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
