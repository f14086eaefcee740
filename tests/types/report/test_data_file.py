"""The operator's file: what is right is understood, what is wrong is named with its place and what to change."""

import pytest

from jobs import settings
from jobs.settings import SettingsError
from jobs.types.report.data_file import read_sources
from tests.stack import ROOT

GOOD = """
[sources.shop]
url = "sqlite:////srv/shop.db"
timeout = "90s"
owners = ["alice"]

[sources.shop.queries.orders]
sql = '''
-- what came in at 10:30 or later
SELECT id, "total:net" FROM orders WHERE placed >= :since AND total > :least AND (:status IS NULL OR status = :status);
'''
count = false

[sources.shop.queries.orders.params]
since = { type = "date", default = 2026-01-01 }
least = { type = "number" }
status = { type = "text", optional = true, choices = ["open", "paid"] }
"""
HEAD = "[sources.shop.queries"
URL = "sqlite:////srv/shop.db"
QUERY = '[sources.shop]\nurl = "sqlite:////srv/shop.db"\n[sources.shop.queries.orders]\n'


def read(tmp_path, text):
    file = tmp_path / "sources.toml"
    file.write_text(text, "utf-8")
    return read_sources(settings.load({}, data_sources=file))


def test_a_file_is_understood(tmp_path):
    [shop] = read(tmp_path, GOOD)
    assert (shop.name, shop.url, shop.timeout, shop.owners) == ("shop", "sqlite:////srv/shop.db", 90, {"alice"})
    orders = shop.queries["orders"]
    assert orders.sql.endswith("status = :status)") and not orders.count
    assert {name: (param.type, param.required) for name, param in orders.params.items()} == {
        "since": ("date", False), "least": ("number", True), "status": ("text", False)}
    found = orders.values({"least": 5})
    assert (str(found["since"]), found["least"], found["status"]) == ("2026-01-01", 5.0, None)


def test_without_the_setting_there_is_no_source():
    assert read_sources(settings.load({})) == []


def test_the_example_is_a_good_file(monkeypatch):
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    names = {source.name: list(source.queries) for source in read_sources(settings.load(
        {}, data_sources=ROOT / "examples" / "data-sources.toml"))}
    assert names == {"bookshop": ["books", "loans"], "shop": ["orders"]}


def test_the_environment_is_put_into_urls(tmp_path, monkeypatch):
    monkeypatch.setenv("PASSWORD", "p@ss:w/rd%")
    monkeypatch.setenv("WHOLE", "postgresql://reader@db/shop")
    text = QUERY + 'sql = "SELECT 1"'
    [shop] = read(tmp_path, text.replace("sqlite:////srv/shop.db", "postgres://reader:${PASSWORD}@db/shop"))
    assert shop.url == "postgresql+psycopg://reader:p%40ss%3Aw%2Frd%25@db/shop"
    assert "p%40" not in repr(shop)
    [shop] = read(tmp_path, text.replace("sqlite:////srv/shop.db", "${WHOLE}"))
    assert shop.url == "postgresql+psycopg://reader@db/shop"


FAULTS = {
    "no TOML": ("sources = [", "is no TOML"),
    "another table": ("[source.shop]\n", "there is no 'source'; it may have sources"),
    "the name of our own jobs": ("[sources.jobs]\n", "source 'jobs': this is the name of the server's own jobs"),
    "a name with a space": ('[sources."my shop"]\n', "a name is made of lower-case letters"),
    "no url": ("[sources.shop.queries.orders]\nsql = 'SELECT 1'", "source 'shop': url is missing; write url ="),
    "no query": ('[sources.shop]\nurl = "sqlite:////srv/shop.db"', "it has no query; add [sources.shop.queries.NAME]"),
    "a misspelt key": (QUERY + "sql = 'SELECT 1'\nparam.x = 1", "query 'orders': there is no 'param'; it may have sql, count, params"),
    "no sql": (QUERY, "source 'shop', query 'orders': sql is missing"),
    "sql that writes": (QUERY + "sql = 'DELETE FROM orders'", "sql must begin with SELECT"),
    "sql that hides that it writes": (QUERY + "sql = '/* SELECT */ DELETE FROM orders'", "sql must begin with SELECT"),
    "an undeclared parameter": (QUERY + "sql = 'SELECT :since'", "the SQL names :since, which is not declared"),
    "an idle parameter": (QUERY + "sql = 'SELECT 1'\nparams.x = { type = 'text' }", "the parameter 'x' is not used; write :x"),
    "an unknown type": (QUERY + "sql = 'SELECT :x'\nparams.x = { type = 'string' }",
                        "parameter 'x': type is one of text, integer, number, boolean, date, datetime"),
    "a default that does not fit": (QUERY + "sql = 'SELECT :x'\nparams.x = { type = 'date', default = 'soon' }",
                                    "parameter 'x': default or choices do not fit its type"),
    "a default beside the choices": (QUERY + "sql = 'SELECT :x'\nparams.x = { type = 'text', default = 'c', choices = ['a'] }",
                                     "parameter 'x': default or choices do not fit"),
    "a parameter that is no table": (QUERY + "sql = 'SELECT :x'\nparams.x = 'text'", "write such as x = { type = \"text\" }"),
    "a bad timeout": (QUERY.replace(HEAD, "timeout = 'long'\n" + HEAD) + "sql = 'SELECT 1'", "timeout: write a duration"),
    "owners as text": (QUERY.replace(HEAD, "owners = 'alice'\n" + HEAD) + "sql = 'SELECT 1'", "owners is a list"),
    "no URL": (QUERY.replace(URL, "/srv/shop.db") + "sql = 'SELECT 1'", "url is no SQLAlchemy URL"),
    "SQLite in memory": (QUERY.replace(URL, "sqlite://") + "sql = 'SELECT 1'", "url names no SQLite file"),
    "no driver": (QUERY.replace(URL, "mysql://h/d") + "sql = 'SELECT 1'", "write such as mysql+DRIVER://"),
    "a driver that is not there": (QUERY.replace(URL, "mysql+nosuchdriver://h/d") + "sql = 'SELECT 1'",
                                   "the driver nosuchdriver is not installed: name it in requirements-team.txt"),
    "a variable that is not there": (QUERY.replace(URL, "${NO_SUCH_URL}") + "sql = 'SELECT 1'",
                                     "url names ${NO_SUCH_URL}, which is not in the environment"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_named_with_file_and_place(case, tmp_path):
    text, hint = FAULTS[case]
    with pytest.raises(SettingsError) as refused:
        read(tmp_path, text)
    message = str(refused.value)
    assert hint in message and f"ACCEPTED_DATA_SOURCES: {tmp_path / 'sources.toml'}" in message, message


def test_every_fault_is_named_at_once(tmp_path):
    with pytest.raises(SettingsError) as refused:
        read(tmp_path, QUERY + "sql = 'DROP TABLE a'\n[sources.shop.queries.more]\nsql = 'SELECT :x'\n[sources.Other]\nurl = ''")
    assert len(str(refused.value).splitlines()) == 3


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SettingsError, match="nothing.toml cannot be read: No such file"):
        read_sources(settings.load({}, data_sources=tmp_path / "nothing.toml"))
