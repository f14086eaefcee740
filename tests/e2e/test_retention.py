"""The whole server forgets in time: records, files and uploads."""

from tests.stack import wait_for

DAY = 86400


def test_records_files_and_uploads_go_when_their_time_has_come(stack, tmp_path):
    clock = tmp_path / "clock"
    stack.settings["test_clock"] = str(clock)
    stack.start()
    alice, kept = stack.session("alice"), stack.data / "artifacts"
    alice.post("/v1/files?name=unused", data=b"nobody wants it")
    job = alice.submit("demo.drill", seconds=0, artifact="notes.txt")
    assert alice.finished(job["id"])["status"] == "succeeded"
    [left] = alice.get(job["links"]["artifacts"]).json()["artifacts"]
    assert alice.get(left["url"]).status_code == 200 and len(list(kept.glob("*/*/*"))) == 2
    clock.write_text(str(2 * DAY))
    wait_for(lambda: len(list(kept.glob("*/*/*"))) == 1, what="the unused upload to go")
    assert alice.get(left["url"]).status_code == 200
    assert alice.get(left["link"]).status_code == 410, "the link has expired, the file has not"
    clock.write_text(str(31 * DAY))
    wait_for(lambda: not list(kept.glob("*/*/*")), what="the job's file to go")
    assert alice.get(f"/v1/jobs/{job['id']}").status_code == 410 and alice.get(left["url"]).status_code == 404
