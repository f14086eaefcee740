"""What job types say stands on the pages in the reader's language: ours by the catalog, a team's by its own words."""

import re
from html.parser import HTMLParser

import pytest

from jobs import settings
from jobs.types import load_registry
from jobs.web.dashboard.told import Phrases, prose
from jobs.work.job_type import DeclarationError, Registry, job_type
from tests.web.pages import Browser

TYPES = [declared.name for declared in load_registry(settings.load({}))]
ENGLISH = re.compile(r"\b[a-z]+ [a-z]+\b")
AS_IT_IS = re.compile(r"\./run install \w+|-F file=@name")


class Texts(HTMLParser):
    """What a page says outside of `<code>`."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[str] = []
        self._depth = 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self._depth += tag == "code"
        self.found += [value for name, value in attrs if name in ("aria-label", "title", "placeholder") and value]

    def handle_endtag(self, tag):
        self._depth -= tag == "code"

    def handle_data(self, data):
        if not self._depth:
            self.found.append(data)

    def english(self) -> list[str]:
        return [text for text in self.found if ENGLISH.search(AS_IT_IS.sub("", text))]


@pytest.fixture(scope="module", params=["zh-CN", "zh-TW"])
def browser(house, request):
    return Browser(house.url, request.param).sign_in(house.session("amy").key)


@pytest.mark.parametrize("name", TYPES)
def test_the_form_of_a_built_in_type_is_all_chinese(browser, name):
    assert Texts(browser.get(f"/ui/new/{name}").text).english() == []


def test_the_pages_of_all_types_are_chinese(browser):
    _, *sections = browser.get("/ui/types").text.split('<section class="panel type"')
    of_ours = {name: section for section in sections if (name := re.search(r"<code>(.*?)</code>", section)[1]) in TYPES}
    assert of_ours.keys() == set(TYPES)
    assert {name: found for name, section in of_ours.items() if (found := Texts(section).english())} == {}
    cards = [card for card in browser.get("/ui/new").text.split("<li ")[1:] if re.search(r"<code>(.*?)</code>", card)[1] in TYPES]
    assert [found for card in cards if (found := Texts(card).english())] == []


WRONG = {
    "demo.drill": {"payload.seconds": "long", "payload.steps": "0", "payload.failStatus": "999", "payload.artifact": "x" * 201,
                   "option.callbackUrl": "http://127.0.0.2/", "option.notBefore": "2099-01-01T00:00", "option.timeout": "0"},
    "video.transcode": {"payload.sourceUrl": "nothing", "payload.transcode": ["720p", "720p", "9p"]},
    "article.export": {"payload.format": "doc", "payload.topic": "..", "payload.title": "x" * 201},
    "report.export": {"payload.source": "none", "payload.query": "all", "payload.params": "[]"},
    "url.fetch": {"payload.url": "ftp://x", "payload.sha256": "12"},
    "ocr.read": {"payload.sourceUrl": "http://10.0.0.1/", "payload.firstPage": "3", "payload.lastPage": "2"},
}


@pytest.mark.parametrize("name", WRONG)
def test_the_messages_at_its_fields_are_chinese(browser, name):
    page = browser.submit(name, browser.form(name), **WRONG[name])
    faults = [text for fault in re.findall(r'<p class="fault" id=.*?</p>', page) for text in Texts(fault).found]
    assert faults or name == "ocr.read", "an installation without its extra says just that"
    assert Texts(page).english() == []


def test_a_message_is_found_by_its_pattern():
    phrases = Phrases({"{a} has no {b}.": "{a} 没有 {b}。", "Must be one of: {choices}.": "是 {choices} 之一。", "red": "红",
                       "{a}: {b}": "!", "A {x} like a {x} indeed": "{x}!"})
    assert phrases.find("Must be one of: a, b.") == "是 a, b 之一。"
    assert phrases.find("Must be one of: red.") == "是 红 之一。"
    assert phrases.find("jobs has no x\ny.") == "jobs 没有 x\ny。"
    assert phrases.find("a: b") is None and phrases.find("something else") is None
    assert phrases.find("A cat like a cat indeed") == "cat!" and phrases.find("A cat like a dog indeed") is None


def test_what_stands_between_backticks_is_code():
    assert prose("a `b<` c") == "a <code>b&lt;</code> c" and prose("a ` <b>") == "a ` &lt;b&gt;"


@pytest.mark.parametrize("language, source, description, choice, fault", [
    ("en", "Source", "Take a form apart.", "Fast one", "There are 1 to 9, not 12."),
    ("zh-CN", "来源", "拆开一张表。", "快的", "可以有 1 到 9 个，不能是 12。"),
    ("zh-TW", "來源", "拆开一张表。", "快的", "可以有 1 到 9 个，不能是 12。")])
def test_a_team_brings_its_own_words(house, language, source, description, choice, fault):
    browser = Browser(house.url, language).sign_in(house.session("amy").key)
    page = browser.submit("test.form", browser.form("test.form"), **{"payload.count": "12"})
    for text in (source, description, choice, fault, ">good<"):
        assert text in page, text


def test_what_has_no_words_is_shown_as_it_is_written(browser):
    page = browser.get("/ui/new/test.note").text
    assert "Own a collection." in page and "<h1>Test note</h1>" in page


def test_programs_get_the_words_as_they_are_written(house):
    api = house.session("amy")
    api.headers["Accept-Language"] = "zh-CN"
    [described] = [one for one in api.get("/v1/job-types").json()["jobTypes"] if one["name"] == "test.form"]
    assert described["description"] == "Take a form apart." and "words" not in described
    refused = api.post("/v1/jobs", json={"type": "test.form", "payload": {"count": 12}}).json()
    assert {one["detail"] for one in refused["errors"]} == {"There are 1 to 9, not 12.", "Missing data for required field."}


@pytest.mark.parametrize("words", [["zh"], {"zh": "x"}, {"zh": {"a": 1}}, {1: {}}, {"zh": {1: "x"}}])
def test_words_that_are_none_stop_the_start(words):
    with pytest.raises(DeclarationError, match="table of tables by language"):
        Registry([job_type("a.b", words=words)(lambda job: None)])
