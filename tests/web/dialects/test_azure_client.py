"""Azure's own pollers, unmodified, given host and credentials only; and urllib3's Retry."""

import pytest
import urllib3
from azure.core import PipelineClient
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import (
    AzureKeyCredentialPolicy,
    RedirectPolicy,
    RequestIdPolicy,
    RetryPolicy,
    SansIOHTTPPolicy,
)
from azure.core.polling import LROPoller
from azure.core.polling.base_polling import LROBasePolling
from azure.core.rest import HttpRequest
from azure.mgmt.core.polling.arm_polling import ARMPolling

from tests.stack import wait_for

BOTH = "Operation-Location", "Azure-AsyncOperation"


class Without(SansIOHTTPPolicy):
    """A server in between that lets some headers through and others not."""

    def __init__(self, *names):
        self.names = names

    def on_response(self, request, response):
        for name in self.names:
            response.http_response.headers.pop(name, None)


def json_of(answer):
    return answer.http_response.json()


def follow(api, polling, path, body, *, without=(), key=None, read=json_of) -> LROPoller:
    """Submit as a generated client does and hand the answer to Azure's poller."""
    client = PipelineClient(api.base, policies=[
        RequestIdPolicy(), RedirectPolicy(), RetryPolicy(),
        AzureKeyCredentialPolicy(AzureKeyCredential(api.key), "Authorization", prefix="Bearer"), Without(*without)])
    headers = {"Idempotency-Key": key} if key else {}
    answer = client._pipeline.run(HttpRequest("POST", api.base + path, json=body, headers=headers), stream=False)
    return LROPoller(client, answer, read, polling)


def base(via=None, **more):
    return LROBasePolling(timeout=1, lro_options={"final-state-via": via} if via else None, **more)


def arm(via=None):
    return ARMPolling(timeout=1, lro_options={"final-state-via": via} if via else None)


POLLERS = {  # how they poll, where they look for the result, which headers do not reach them
    "Operation-Location": (base, None, ()),
    "Operation-Location, final state via Location": (base, "location", ()),
    "Operation-Location, final state via itself": (base, "operation-location", ()),
    "Azure-AsyncOperation": (arm, None, ()),
    "Azure-AsyncOperation, final state via Location": (arm, "location", ()),
    "Azure-AsyncOperation, final state via itself": (arm, "azure-async-operation", ()),
    "Location only": (base, None, BOTH),
    "Location only, ARM": (arm, None, BOTH),
}


def query(without) -> str:
    """Who follows Location alone must ask for 202 while it is pending."""
    return "?OnPending=Accepted" if without else ""


def follow_all(api, type, body) -> dict[str, LROPoller]:
    """A job for each kind of poller; each polls on a thread of its own, so that their pauses do not add up."""
    return {name: follow(api, polling(via), f"/api/{type}{query(without)}", body, without=without)
            for name, (polling, via, without) in POLLERS.items()}


def test_success_ends_with_the_result(alice):
    for name, poller in follow_all(alice, "demo.drill", {"seconds": 0.3, "value": {"status": "Running"}}).items():
        found = poller.result(timeout=60)
        assert poller.status() == "Succeeded", name
        assert (found["result"] if "itself" in name else found) == {"value": {"status": "Running"}}, name


def test_success_of_a_type_with_a_collection_ends_with_the_resource(alice):
    for name, poller in follow_all(alice, "test.note", {"text": "hello"}).items():
        found = poller.result(timeout=60)
        if "itself" in name:
            assert found["result"] == {"length": 5} and "/v1/notes/" in found["resourceLocation"], name
        else:
            assert (found["text"], found["status"]) == ("hello", "ready"), name


@pytest.mark.parametrize("status", [422, 503])
def test_failure_has_its_code_and_message(alice, status):
    for name, poller in follow_all(alice, "demo.drill", {"seconds": 0, "fail": "as asked", "failStatus": status}).items():
        with pytest.raises(HttpResponseError) as caught:
            poller.result(timeout=60)
        assert (caught.value.error.code, caught.value.error.message) == ("drill-failed", "as asked"), name
        assert poller.status() == "Failed", name


def test_cancellation_ends_it(alice):
    pollers = follow_all(alice, "demo.drill", {"seconds": 600, "steps": 10000})
    for poller in pollers.values():
        location = poller.polling_method()._initial_response.http_response.headers["Location"]
        assert alice.delete(location.partition("?")[0]).status_code == 202
    for name, poller in pollers.items():
        with pytest.raises(HttpResponseError) as caught:
            poller.result(timeout=60)
        assert caught.value.error.code == "job-cancelled", name
        assert poller.status() == ("Failed" if "only" in name else "Canceled"), name


@pytest.mark.parametrize("polling, without", [(base, ()), (arm, ()), (base, BOTH)])
def test_a_slow_job_is_waited_for_and_a_replay_follows_the_same_one(alice, polling, without):
    path, body, key = f"/api/demo.drill{query(without)}", {"seconds": 2, "value": 1}, f"slow{polling.__name__}{len(without)}"
    first = follow(alice, polling(), path, body, without=without, key=key)
    assert not first.done()
    again = follow(alice, polling(), path, body, without=without, key=key)
    assert first.result(timeout=60) == again.result(timeout=60) == {"value": 1}
    late = follow(alice, polling(), path, body, without=without, key=key)  # the job has ended long ago
    assert late.result(timeout=60) == {"value": 1}


@pytest.mark.parametrize("mode", ["Redirect", "Stream"])
def test_location_leads_to_the_file(alice, mode):
    poller = follow(alice, base("location"), f"/api/demo.drill?OnComplete={mode}", {"seconds": 0, "artifact": "a.txt"},
                    read=lambda answer: answer.http_response.text())
    assert poller.result(timeout=60).startswith("Left by drill ")


def test_urllib3_follows_the_location_monitor(alice):
    accepted = alice.post("/api/demo.drill?OnPending=Accepted&signed=true", json={"seconds": 2, "value": 7})
    for headers in (dict(alice.headers), {}):
        retries = urllib3.Retry(total=60, status_forcelist=[202], allowed_methods=["GET"])
        answer = urllib3.PoolManager().request("GET", accepted.headers["Location"], headers=headers, retries=retries)
        assert (answer.status, answer.json()) == (200, {"value": 7})
        assert "signature=" in accepted.headers["Location"]


@pytest.mark.parametrize("fate, status", [({"fail": "as asked"}, 422), ({"fail": "as asked", "failStatus": 500}, 409)])
def test_urllib3_stops_at_a_failure(alice, fate, status):
    location = alice.post("/api/demo.drill?OnPending=Accepted", json={"seconds": 0.5} | fate).headers["Location"]
    retries = urllib3.Retry(total=60, status_forcelist=[202], allowed_methods=["GET"])
    answer = urllib3.PoolManager().request("GET", location, headers=dict(alice.headers), retries=retries)
    assert (answer.status, answer.json()["error"]["message"]) == (status, "as asked")


def test_urllib3_stops_at_a_cancellation(alice):
    location = alice.post("/api/demo.drill?OnPending=Accepted", json={"seconds": 600, "steps": 10000}).headers["Location"]
    wait_for(lambda: alice.get(location).json()["status"] == "Running")
    alice.delete(location.partition("?")[0])
    retries = urllib3.Retry(total=60, status_forcelist=[202], allowed_methods=["GET"])
    answer = urllib3.PoolManager().request("GET", location, headers=dict(alice.headers), retries=retries)
    assert (answer.status, answer.json()["error"]["code"]) == (409, "job-cancelled")
