"""A schema becomes a form, and the form that was sent becomes a payload again."""

import pytest
from marshmallow import fields, validate
from werkzeug.datastructures import MultiDict

from jobs.web.dashboard import forms
from jobs.work.job_type import job_type


@job_type("test.form", payload={
    "source": fields.Str(required=True, metadata={"input": True, "title": "Source"}),
    "sizes": fields.List(fields.Str(validate=validate.OneOf(["s", "m", "l"])), load_default=["m"]),
    "mode": fields.Str(validate=validate.OneOf(["fast", "good"])),
    "count": fields.Int(load_default=2, validate=validate.Range(1, 9)),
    "ratio": fields.Float(load_default=1.0),
    "dry": fields.Bool(load_default=False),
    "names": fields.List(fields.Str()),
    "password": fields.Str(metadata={"secret": True}),
    "more": fields.Dict(),
    "note": fields.Str(data_key="noteText", validate=validate.Length(max=5000)),
})
def declared(job, **payload):
    """Anything."""


KNOWN = forms.inputs(declared)


def test_each_kind_of_field_has_its_control():
    assert {one.name: one.kind for one in KNOWN} == {
        "source": "file", "sizes": "choices", "mode": "choice", "count": "whole", "ratio": "number", "dry": "switch",
        "names": "lines", "password": "secret", "more": "json", "noteText": "long"}
    by_name = {one.name: one for one in KNOWN}
    assert KNOWN[0].name == "source" and by_name["source"].required and by_name["source"].label == "Source"
    assert by_name["sizes"].choices == ("s", "m", "l") and by_name["sizes"].default == ["m"]
    assert (by_name["count"].default, by_name["count"].low, by_name["count"].high) == ("2", 1, 9)
    assert (by_name["ratio"].default, by_name["dry"].default) == ("1", "false")


PAYLOAD = {"source": "https://example.org/a", "sizes": ["s", "l"], "mode": "good", "count": 3, "ratio": 0.5,
           "dry": True, "names": ["a", "b c"], "more": {"x": [1, "二"]}, "noteText": "one\ntwo"}


def test_a_payload_survives_the_way_through_the_form():
    assert forms.read(KNOWN, forms.written(KNOWN, PAYLOAD)) == PAYLOAD


def test_a_covered_secret_is_not_taken_for_the_secret():
    assert "payload.password" not in forms.written(KNOWN, {"password": "•••"})


@pytest.mark.parametrize("sent, payload", [
    ({}, {}), ({"payload.count": " "}, {}),
    ({"payload.count": "many"}, {"count": "many"}), ({"payload.count": "1.5"}, {"count": 1.5}),
    ({"payload.more": "{not json"}, {"more": "{not json"}), ({"payload.names": " a \r\n\r\n b"}, {"names": ["a", "b"]}),
    ({"payload.dry": "maybe"}, {}), ({"payload.unknown": "x", "csrf": "y"}, {})])
def test_what_cannot_be_read_stays_for_the_schema_to_judge(sent, payload):
    assert forms.read(KNOWN, MultiDict(sent)) == payload
