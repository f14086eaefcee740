"""The fixtures that other tests stand on."""

import psycopg


def test_a_postgres_database_of_its_own(postgres_url):
    with psycopg.connect(postgres_url.replace("+psycopg", "")) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_chromium_is_found(chromium_path):
    assert chromium_path.startswith("/")
