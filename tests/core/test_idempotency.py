"""Which bodies count as the same."""

import pytest

from jobs.core.idempotency import fingerprint


@pytest.mark.parametrize("one, other", [
    ({"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1}), ({"seconds": 10}, {"seconds": 10.0}), ([{"n": -0.0}], [{"n": 0}]),
    ({"n": 1e2}, {"n": 100})])
def test_equal_json_is_the_same_body(one, other):
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize("one, other", [
    ({"a": 1}, {"a": "1"}), ({"a": 1}, {"a": True}), ({"a": None}, {}), ([1, 2], [2, 1]), ({"n": 2**60}, {"n": 2**60 + 1}),
    ({"n": 0.1}, {"n": 0.10000000000000002})])
def test_other_json_is_another_body(one, other):
    assert fingerprint(one) != fingerprint(other)
