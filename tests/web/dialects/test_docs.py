"""docs/dialects.md: its table is what the dialects say, its example of a new dialect works, and OpenAPI has every route."""

import re
from types import ModuleType

import pytest

from app import create_app
from jobs import settings as settings_of
from jobs.core import access, models
from jobs.core.submission import Submission, accept
from jobs.web.dialects import DIALECTS, azure, snake
from tests.stack import ROOT

PAGE = (ROOT / "docs" / "dialects.md").read_text()


@pytest.fixture
def app(tmp_path):
    settings = settings_of.load({}, data_dir=tmp_path, redis_url=f"unix://{tmp_path}/nobody.sock")
    app = create_app(settings)
    models.prepare(app.extensions["accepted"].db, settings)
    yield app
    app.extensions["accepted"].db.close()


def test_the_table_says_what_the_dialects_say():
    rows = dict(re.findall(r"^\| (\w+) \| done=(.*)$", PAGE, re.MULTILINE))
    assert set(rows) == set(snake.STATUSES) == set(azure.STATUSES)
    for status, row in rows.items():
        assert f"| {snake.STATUSES[status]}" in row and f"| {azure.STATUSES[status]}" in row


def test_the_example_is_a_dialect(app):
    example = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "Blueprint(" in block)
    module = ModuleType("example")
    exec(example, vars(module))
    assert module.blueprint not in [dialect.blueprint for dialect in DIALECTS] and callable(module.render)
    app.register_blueprint(module.blueprint)
    db = app.extensions["accepted"].db
    keys = [db.write(lambda tx, owner=owner: access.make_key(tx, owner, "submit")) for owner in ("alice", "bob")]
    job = db.write(lambda tx: accept(tx, Submission(
        type="demo.drill", owner="alice", queue="default", payload="{}", timeout=60, retention=600, max_attempts=1,
        start_within=600))).job
    mine, foreign = (app.test_client().get(f"/jsonapi/jobs/{job.id}", headers={"Authorization": f"Bearer {key}"}) for key in keys)
    assert mine.json == {"data": {"type": "jobs", "id": str(job.id), "attributes": {"status": "queued", "progress": 0}}}
    assert mine.headers["ETag"] and mine.headers["Retry-After"] and foreign.status_code == 404


def test_openapi_has_every_route_but_those_under_parents(app):
    document = app.test_client().get("/openapi.json").json
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    names = {dialect.blueprint.name for dialect in DIALECTS}
    served = {(method, re.sub(r"<id:\w+>", "{id}", rule.rule)) for rule in app.url_map.iter_rules()
              if rule.endpoint.partition(".")[0] in names and not rule.endpoint.endswith(".refuse") and "<path:" not in rule.rule
              for method in rule.methods - {"HEAD", "OPTIONS"}}
    assert len(served) > 15 and served <= described
