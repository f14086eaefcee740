"""docs/http.md: each of its numbers is asserted, and each of its curl lines runs."""

import re
import subprocess

import pytest

from tests.web.rules import PAGE, asserted, documented


def test_every_number_is_asserted():
    assert documented() - asserted() == set(), "rules that no test asserts"
    assert asserted() - documented() == set(), "asserted, but not in the page"
    assert len(documented()) > 80


def test_the_numbers_have_no_gaps():
    by_section: dict[int, list[int]] = {}
    for section, number in (map(int, each.split(".")) for each in documented()):
        by_section.setdefault(section, []).append(number)
    assert sorted(by_section) == [1, 2, 3, 4, 5, 6, 8, 10]
    assert all(sorted(numbers) == list(range(1, len(numbers) + 1)) for numbers in by_section.values())


def test_the_page_tells_what_integrators_must_know():
    text = PAGE.read_text()
    for phrase in ("is not work that succeeded", "`Retry-After`", "1 s, 2 s, 4 s … 30 s", "deadline", "store it yourself",
                   "reconcile", "callbacks", "message broker", "WebSocket"):
        assert phrase in text


@pytest.mark.needs("curl")
def test_the_curl_lines_run(house, tmp_path):
    """The blocks run one after the other in one shell; each `#>` line quotes what the output of its block holds."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    script = "".join(f"{{\n{block}\n}} > {tmp_path}/{number} 2>&1\n" for number, block in enumerate(blocks))
    api = house.session("integrator")
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, timeout=120,
                          env=house.environment | {"ACCEPTED_URL": house.url, "ACCEPTED_KEY": api.key})
    outputs = [path.read_text() if (path := tmp_path / str(number)).exists() else "" for number in range(len(blocks))]
    assert done.returncode == 0, done.stderr + "\n".join(outputs)
    for block, output in zip(blocks, outputs, strict=True):
        at = 0
        for line in re.findall(r"^#> (.*)$", block, re.MULTILINE):
            assert line in output, f"{line!r} is not in:\n{output}"
            at += 1
        assert at, f"nothing is quoted in:\n{block}"


@pytest.mark.parametrize("path", ["README.md", "docs/http.md"])
def test_the_page_is_well_formed(path):
    text = (PAGE.parent.parent / path).read_text()
    assert text.count("```") % 2 == 0 and "\t" not in text
