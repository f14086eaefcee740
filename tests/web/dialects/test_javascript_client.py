"""@azure/core-lro, Azure's poller for JavaScript, unmodified, given host and credentials only."""

import pytest

STATUS_HEADERS = ["operation-location", "azure-asyncoperation"]
WAYS = {  # what does not get through, where the result is looked for, how to follow
    "Operation-Location, result in it": ([], "operation-location", ""),
    "Operation-Location, then Location": ([], "location", "?OnComplete=Stream"),  # it follows a 303 only after a POST
    "Azure-AsyncOperation": (STATUS_HEADERS[:1], "azure-async-operation", ""),
    "Location only": (STATUS_HEADERS, None, "?OnPending=Accepted&OnComplete=Stream"),
}


@pytest.fixture(scope="module")
def follow(node, alice):
    def follow(way, body, type="demo.drill", **more):
        without, via, query = WAYS[way]
        return node("follow.mjs", {"url": f"{alice.base}/api/{type}{query}", "key": alice.key, "body": body,
                                   "without": without, "via": via} | more)
    return follow


@pytest.mark.parametrize("way", WAYS)
def test_success(follow, way):
    said = follow(way, {"seconds": 0.5, "value": {"status": "Running"}})
    assert said["status"] == "succeeded", said
    found = said["result"]["result"] if WAYS[way][1] in ("operation-location", "azure-async-operation") else said["result"]
    assert found == {"value": {"status": "Running"}}


def test_a_slow_job_of_a_type_with_a_collection_ends_with_the_resource(follow):
    said = follow("Operation-Location, then Location", {"text": "hello"}, "test.note")
    assert (said["result"]["text"], said["result"]["status"]) == ("hello", "ready")
    assert follow("Operation-Location, result in it", {"seconds": 3})["status"] == "succeeded"


@pytest.mark.parametrize("way", WAYS)
def test_failure_has_its_code_and_message(follow, way):
    said = follow(way, {"seconds": 0, "fail": "as asked", "failStatus": 503})
    assert "drill-failed" in (said.get("code") or said["message"]) and "as asked" in said["message"], said


@pytest.mark.parametrize("way", WAYS)
def test_cancellation(follow, alice, way):
    said = follow(way, {"seconds": 600, "steps": 10000}, cancel=f"{alice.base}/api/RequestStatus")
    assert said["status"] == "canceled" or said["code"] == "job-cancelled", said
