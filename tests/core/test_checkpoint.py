"""The log moves into the database while others write, from the same process too."""

import sqlite3
import threading

from jobs import settings
from jobs.core import models
from jobs.db import Database


def test_checkpoints_go_by_the_door(tmp_path):
    given = settings.load({}, data_dir=str(tmp_path))
    db = Database(given)
    models.prepare(db, given)
    faults = []

    def write():
        try:
            for _ in range(100):
                db.write(lambda tx: tx.run("UPDATE meta SET value = value + 1 WHERE name = 'horizon'"), durable=False)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        db.checkpoint()
    assert not faults
    assert db.read().value("SELECT value FROM meta WHERE name = 'horizon'") == 400
    db.checkpoint()
    db.close()
    with sqlite3.connect(tmp_path / "accepted.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
