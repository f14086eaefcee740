"""Every state in every dialect, against `golden.json`. To see what a change does to it, run

    python -m tests.web.dialects.test_golden        # writes golden.json anew; then read the difference
"""

import json
from pathlib import Path

import pytest
from google.longrunning import operations_pb2
from google.protobuf import json_format, struct_pb2

from jobs.core.states import TERMINAL, Status
from jobs.web.dialects import DIALECTS, azure, google, snake
from tests.web.dialects.given import JOBS

GOLDEN = Path(__file__).with_name("golden.json")
RENDER = {
    "google": lambda job: google.render(job, f"projects/p/operations/{job.id}"),
    "snake": snake.render,
    "azure": lambda job: azure.render(job, "https://jobs.example"),
    "azure, the first answer": lambda job: azure.render_first(job, "https://jobs.example"),
}


def rendered() -> dict:
    return {state: {dialect: render(job) for dialect, render in RENDER.items()} for state, job in JOBS.items()}


def test_every_status_and_every_dialect_is_among_them():
    assert {job.status for job in JOBS.values()} == set(Status)
    assert {dialect.blueprint.name for dialect in DIALECTS} == {name.partition(",")[0] for name in RENDER}


@pytest.mark.parametrize("state", JOBS)
def test_it_reads_as_it_always_did(state):
    assert json.loads(json.dumps(rendered()[state])) == json.loads(GOLDEN.read_text())[state]


@pytest.mark.parametrize("state", JOBS)
def test_a_done_one_has_either_a_result_or_an_error_and_an_active_one_neither(state):
    job, done = JOBS[state], JOBS[state].status in TERMINAL
    operation, snake_case, status = (RENDER[name](job) for name in ("google", "snake", "azure"))
    assert operation["done"] is snake_case["done"] is done
    assert ("response" in operation) + ("error" in operation) == done
    assert ("result" in snake_case) + ("error" in snake_case) == done == ("completed_at" in snake_case)
    assert ("result" in status) + ("error" in status) == done
    assert set(operation) <= {"name", "done", "metadata", "response", "error"}


@pytest.mark.parametrize("state", JOBS)
def test_googles_parser_takes_it(state):
    operation = json_format.Parse(json.dumps(RENDER["google"](JOBS[state])), operations_pb2.Operation(),
                                  ignore_unknown_fields=False)
    metadata = struct_pb2.Struct()
    assert operation.metadata.Unpack(metadata) and metadata["type"] == "article.export"


@pytest.mark.parametrize("state", JOBS)
def test_azures_words_are_exactly_these_and_no_number_takes_their_place(state):
    for name in ("azure", "azure, the first answer"):
        body = RENDER[name](JOBS[state])
        assert body["status"] in ("NotStarted", "Running", "Succeeded", "Failed", "Canceled")
        assert not isinstance(body.get("error", {}).get("status"), int)


def test_the_first_answer_is_the_same_for_each_repetition():
    assert len({json.dumps(RENDER["azure, the first answer"](job)) for job in JOBS.values()}) == 1


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(rendered(), indent=1, ensure_ascii=False) + "\n")
