"""The server describes itself: truthfully, and so that tools can read it."""

import re
from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from app import create_app
from jobs import settings
from jobs.types import load_registry

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def document(server):
    return server.session("alice").get("/openapi.json", headers={"Authorization": None}).json()


def test_the_document_is_valid_openapi(document):
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_it_describes_each_job_type_with_the_schema_that_validates(document):
    submissions = {variant["title"]: variant for variant in document["components"]["schemas"]["Submission"]["oneOf"]}
    assert set(submissions) == {declared.name for declared in load_registry(settings.load({}))}
    drill = submissions["demo.drill"]["properties"]["payload"]["properties"]
    assert drill["failStatus"] == {"type": "integer", "default": 422, "minimum": 400, "maximum": 599,
                                   "title": "Status of the failure", "description": "The status of that problem."}


def test_collections_have_their_paths(document):
    assert {"/v1/videos", "/v1/videos/{id}"} <= set(document["paths"])
    assert "callbacks" in document["paths"]["/v1/videos"]["post"] and "webhooks" in document


def test_public_operations_need_no_key_and_all_others_do(document, server):
    import requests

    for path, methods in document["paths"].items():
        operation = methods.get("get")
        if operation:
            answer = requests.get(server.url + path.replace("{id}", "1"), timeout=60)
            assert (answer.status_code == 401) == ("security" not in operation), path


def test_job_types_tell_what_a_client_needs(server):
    found = {entry["name"]: entry for entry in server.session("alice").get("/v1/job-types").json()["jobTypes"]}
    video = found["video.transcode"]
    assert (video["collection"], video["cancellation"]) == ("/v1/videos", "best-effort")
    assert video["payload"]["properties"]["sourceUrl"]["format"] == "uri-reference"


def test_metrics_are_for_those_who_see_all(server):
    reader, submitter = server.session("ops", "read"), server.session("alice")
    text = reader.get("/metrics").text
    assert "accepted_redis_up 1.0" in text and "# TYPE accepted_jobs gauge" in text
    documented = re.findall(r"^\| `(accepted_\w+)", (ROOT / "docs/running.md").read_text(), re.MULTILINE)
    assert set(documented) == set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    for state in ("new", "retrying", "failed"):
        assert f'accepted_deliveries{{state="{state}"}}' in text
    assert "\naccepted_endpoints_failing " in text
    assert submitter.get("/metrics").status_code == 403


def test_the_docs_page_renders_in_a_browser_under_its_policy(server, chromium_path):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        complaints = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto(f"{server.url}/docs")
        page.get_by_text("Submit a job", exact=True).wait_for()
        browser.close()
    assert complaints == []


def test_every_route_of_the_api_is_described(document, tmp_path):
    app = create_app(settings.load({}, data_dir=tmp_path))
    collections = [declared.collection for declared in load_registry(settings.load({})) if declared.collection]
    described = {(method, path) for path, methods in document["paths"].items() for method in methods}
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<(?:id|path):\w+>", lambda found: "{id}" if "<id" in found[0] else "{path}", rule.rule)
        path = re.sub(r"<(\w+)>", r"{\1}", path)
        if not path.startswith(("/v1", "/livez", "/readyz", "/metrics", "/openapi")) or path.startswith("/v1/{"):  # under any parent
            continue
        spelled = [path.replace("<collection:collection>", name) for name in collections]
        spelled = [re.sub(r"<any\(.*?\):verb>", verb, one) for one in spelled for verb in ("cancel", "retry", "purge")]
        missing = {(method.lower(), one) for method in rule.methods - {"HEAD", "OPTIONS"} for one in spelled} - described
        assert not missing, missing
