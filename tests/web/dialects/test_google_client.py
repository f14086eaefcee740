"""google-api-core's own client of operations, unmodified, given host and credentials only."""

import pytest
from google.api_core import exceptions, operation
from google.api_core.future import polling
from google.api_core.operations_v1 import AbstractOperationsClient
from google.api_core.operations_v1.transports.rest import OperationsRestTransport
from google.auth.transport.requests import AuthorizedSession
from google.longrunning import operations_pb2
from google.oauth2.credentials import Credentials
from google.protobuf import json_format, struct_pb2

from tests.web.making import accept_many, end, in_state

PARENT = "projects/p/locations/l"
POLLING = polling.DEFAULT_POLLING.with_delay(initial=0.1, maximum=0.5)  # as it is, but in less of a test's time


@pytest.fixture(scope="module")
def client(alice):
    return client_of(alice)


def client_of(api):
    transport = OperationsRestTransport(host=api.base, credentials=Credentials(token=api.key))
    return AbstractOperationsClient(transport=transport)


def future_of(api, client, result_type=struct_pb2.Struct, type="demo.drill", **payload):
    """Submit as generated clients do, and follow with Google's future."""
    answer = AuthorizedSession(Credentials(token=api.key)).post(f"{api.base}/v1/{PARENT}/{type}:run", json=payload)
    started = json_format.ParseDict(answer.json(), operations_pb2.Operation())
    return operation.from_gapic(started, client, result_type, metadata_type=struct_pb2.Struct, polling=POLLING)


def test_a_future_succeeds(alice, client):
    future = future_of(alice, client, seconds=0.5, value=[1, {"a": None}])
    assert json_format.MessageToDict(future.result(timeout=60)) == {"value": [1, {"a": None}]}
    assert future.metadata["status"] == "succeeded" and future.metadata["progress"] == 100


def test_a_slow_job_is_waited_for(alice, client):
    future = future_of(alice, client, seconds=4, steps=40)
    assert not future.done() and future.metadata["type"] == "demo.drill"
    assert future.result(timeout=60) is not None


@pytest.mark.parametrize("value", [[1, "two", None], 2**53, None, {"status": "running", "done": False}])
def test_any_result_arrives(alice, client, value):
    kind = struct_pb2.Struct if isinstance(value, dict) else struct_pb2.Value
    found = json_format.MessageToDict(future_of(alice, client, kind, "test.quick", value=value).result(timeout=60))
    assert found == value


def test_an_integer_beyond_any_double_arrives_as_text_and_spoils_no_page(alice, client):
    huge = 10**400
    future = future_of(alice, client, struct_pb2.Struct, "test.quick", value={"a": [huge, -huge, 2**1000]})
    found = json_format.MessageToDict(future.result(timeout=60))
    assert found == {"a": [str(huge), str(-huge), float(2**1000)]}


def test_a_partial_success_is_a_result_that_names_what_is_missing(alice, client):
    result = future_of(alice, client, seconds=0, partial=["a"]).result(timeout=60)
    assert json_format.MessageToDict(result)["errors"] == [{"part": "a", "detail": "skipped as asked"}]


@pytest.mark.parametrize("status, error", [
    (422, exceptions.InvalidArgument), (403, exceptions.PermissionDenied), (404, exceptions.NotFound),
    (409, exceptions.FailedPrecondition), (429, exceptions.ResourceExhausted), (501, exceptions.MethodNotImplemented),
    (503, exceptions.ServiceUnavailable), (504, exceptions.DeadlineExceeded), (500, exceptions.InternalServerError)])
def test_a_future_fails_with_the_exception_of_its_kind(alice, client, status, error):
    future = future_of(alice, client, seconds=0, fail="as asked", failStatus=status)
    with pytest.raises(error, match="as asked"):
        future.result(timeout=60)


def test_a_future_is_cancelled(alice, client):
    future = future_of(alice, client, seconds=600, steps=10000)
    assert future.cancel()
    with pytest.raises(exceptions.Cancelled):
        future.result(timeout=60)
    assert future.cancelled() and not future.cancel()


def test_getting_listing_cancelling_deleting(speaker):
    frank = speaker.session("frank")
    client = client_of(frank)
    names = [f"{PARENT}/operations/{job}" for job in accept_many(speaker, "frank", 5)][::-1]
    assert client.get_operation(name=names[0]).name == names[0]
    pager = client.list_operations(name=PARENT, filter_="done=false", page_size=2)
    assert [each.name for each in pager] == names
    assert client.cancel_operation(name=names[0]) is None
    assert client.get_operation(name=names[0]).error.code == 1
    assert [each.name for each in client.list_operations(name=PARENT, filter_='metadata.status="cancelled"')] == names[:1]
    assert client.delete_operation(name=names[0]) is None
    with pytest.raises(exceptions.NotFound):
        client.get_operation(name=names[0])
    with pytest.raises(exceptions.BadRequest, match="not done"):
        client.delete_operation(name=names[1])


def test_what_is_wrong_is_understood(alice, bob, client):
    job = in_state(bob, "queued")
    for name in (f"{PARENT}/operations/{job['id']}", f"{PARENT}/operations/999999"):
        with pytest.raises(exceptions.NotFound):
            client.get_operation(name=name)
    for wrong in ({"filter_": "odd"}, {"filter_": "", "page_size": -1}):
        with pytest.raises(exceptions.BadRequest):
            list(client.list_operations(name=PARENT, **wrong))
    end(bob, job)
