"""Settings: read once, strictly, and documented."""

from pathlib import Path

import pytest

from jobs import settings, settings_table
from jobs.settings import SettingsError, load
from tests.stack import ROOT


def test_defaults():
    found = load({})
    assert (found.port, found.lease, found.max_body, found.drills) == (8202, 30.0, 1024**2, True)
    assert found.data_dir == Path("var").absolute()
    assert found.base_url == "http://127.0.0.1:8202"


@pytest.mark.parametrize("name, text, value", [
    ("GRACE", "500ms", 0.5), ("LEASE", "2m", 120.0), ("RETENTION", "30d", 2592000.0), ("MAX_BODY", "2k", 2048),
    ("MAX_UPLOAD", "1 GiB", 1024**3), ("DRILLS", "off", False), ("QUEUES", "default, gpu", ("default", "gpu")),
    ("DATABASE_URL", "postgresql://me@db/x", "postgresql+psycopg://me@db/x"), ("PORT", "0", 0), ("PORT", "", 8202), ("LEASE", " 7 ", 7.0),
    ("CONCURRENCY", "video.transcode=2, ocr.read=0", {"video.transcode": 2, "ocr.read": 0}), ("CONCURRENCY", "", {}),
])
def test_values(name, text, value):
    assert getattr(load({f"ACCEPTED_{name}": text}), name.lower()) == value


@pytest.mark.parametrize("name, text, hint", [
    ("LEASE", "soon", "duration"), ("PORT", "65536", "65535"), ("MAX_BODY", "8 elephants", "size"), ("DRILLS", "perhaps", "1 or 0"),
    ("WORKERS", "-1", "whole number"), ("DATABASE_URL", "mysql://x", "postgresql+psycopg://"),
    ("PUBLIC_URL", "jobs.example.org", "https://"), ("TRUSTED_PROXIES", "10.0.0.0/8 proxy", "proxy is no network"),
    ("CORS_ORIGINS", "https://app.example.org/", "without a path"), ("WEB_THREADS", "0", "1 or more"),
    ("HEARTBEAT", "60", "ACCEPTED_LEASE"), ("REDIS_URL", "localhost:6379", "redis://host:6379"),
    ("CONCURRENCY", "video.transcode", "write such as"), ("CONCURRENCY", "a=-1", "write such as"),
    ("WORKRES", "2", "did you mean ACCEPTED_WORKERS"), ("COLOUR_OF_SHED", "red", "docs/settings.md"),
])
def test_a_fault_stops_the_start_with_a_hint(name, text, hint):
    with pytest.raises(SettingsError) as caught:
        load({f"ACCEPTED_{name}": text})
    assert f"ACCEPTED_{name}" in str(caught.value) and hint in str(caught.value)


def test_every_fault_is_named_at_once():
    with pytest.raises(SettingsError) as caught:
        load({"ACCEPTED_PORT": "x", "ACCEPTED_LEASE": "y"})
    assert "ACCEPTED_PORT" in str(caught.value) and "ACCEPTED_LEASE" in str(caught.value)


def test_overrides_win_and_reach_the_children():
    found = load({"ACCEPTED_PORT": "1", "HOME": "/"}, port=2)
    assert found.port == 2
    assert found.environment == {"ACCEPTED_PORT": "2"}


def test_what_the_docs_have_clients_export_stops_no_start():
    found = load({"ACCEPTED_URL": "http://127.0.0.1:8202", "ACCEPTED_KEY": "acc_x"})
    assert found.environment == {}


def test_settings_do_not_change():
    with pytest.raises(AttributeError):
        load({}).port = 1


def test_the_docs_hold_the_table():
    assert settings_table.markdown() in (ROOT / "docs/settings.md").read_text()


def test_every_setting_is_explained_in_a_sentence():
    assert [row.name for row in settings.TABLE if not row.help.strip().endswith(".")] == []


def test_a_listing_shows_what_is_in_force_and_no_secret():
    found = load({"ACCEPTED_ADMIN_KEY": "acc_secret", "ACCEPTED_DATABASE_URL": "postgresql+psycopg://me:pass@db/x", "ACCEPTED_LEASE": "9"})
    text = settings_table.listing(found)
    assert "* ACCEPTED_LEASE = 9" in text
    assert "acc_secret" not in text and "pass@" not in text and "me:•••@db" in text
