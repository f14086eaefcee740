"""Public HTTP and SSE clients, unmodified, against the running server."""

import httpx
import httpx_sse
import pytest
import requests
import sseclient
import urllib3

from tests.web.making import end


def test_urllib3_retry_waits_as_long_as_retry_after_says(stack):
    """A 429 of ours is waited out by urllib3's own Retry, within the time that Retry-After names."""
    stack.settings |= {"rate_limit": "60", "workers": "1"}
    stack.start()
    api = stack.session("eager")
    pool = urllib3.PoolManager(retries=urllib3.Retry(3, status_forcelist=[429], respect_retry_after_header=True))
    history = ()
    while not history:      # until the request comes before the limit has let go
        while api.get("/v1/jobs").status_code != 429:
            pass
        answer = pool.request("GET", f"{stack.url}/v1/jobs", headers={"Authorization": f"Bearer {api.key}"})
        history = answer.retries.history
    assert answer.status == 200 and {entry.status for entry in history} == {429}


def test_urllib3_understands_every_retry_after(house, alice):
    """Whole seconds: fractions would crash it."""
    job = alice.submit("test.parked", {"notBefore": "2027-03-01T00:00:00Z"})
    answer = urllib3.PoolManager().request("GET", f"{house.url}/v1/jobs/{job['id']}", headers={"Authorization": f"Bearer {alice.key}"})
    assert urllib3.Retry().get_retry_after(answer) == 3600
    end(alice, job)


def test_httpx_submits_polls_and_reads(house, alice):
    with httpx.Client(base_url=house.url, headers={"Authorization": f"Bearer {alice.key}"}, timeout=30) as client:
        accepted = client.post("/v1/jobs", json={"type": "demo.drill", "payload": {"seconds": 0.5, "value": "é"}},
                               headers={"Idempotency-Key": "httpx-1"})
        assert accepted.status_code == 202
        etag, statuses = None, []
        while True:
            answer = client.get(accepted.headers["Location"], headers={"If-None-Match": etag} if etag else {}, params={"wait": 5})
            statuses.append(answer.status_code)
            if answer.status_code == 200:
                etag = answer.headers["ETag"]
                if "Retry-After" not in answer.headers:
                    break
        assert answer.json()["status"] == "succeeded" and set(statuses) <= {200, 304}
        assert client.get(answer.json()["links"]["result"]).json() == {"value": "é"}
        assert client.get(answer.json()["links"]["self"], headers={"If-None-Match": etag}).status_code == 304


def kinds(events) -> list[str]:
    return [event.event for event in events]


def test_httpx_sse(house, alice):
    job = alice.submit("demo.drill", seconds=1.5, steps=10, value="déjà vu")
    with httpx.Client(headers={"Authorization": f"Bearer {alice.key}"}, timeout=30) as client:
        with httpx_sse.connect_sse(client, "GET", f"{house.url}/v1/jobs/{job['id']}/events") as source:
            events = list(source.iter_sse())
        assert set(kinds(events[:-1])) == {"progress"} and events[-1].event == "done" and events[0].retry == 3000
        assert events[-1].json()["result"] == {"value": "déjà vu"}
        with httpx_sse.connect_sse(client, "GET", f"{house.url}/v1/jobs/{job['id']}/events",
                                   headers={"Last-Event-ID": events[-1].id}) as source:
            assert source.response.status_code == 204


def test_sseclient_py(house, alice):
    """It makes an event of every block, so the keep-alive (1 s here) may be none; and it would read Latin-1 without a charset."""
    job = alice.submit("demo.drill", seconds=2.5, steps=1, value="déjà vu")
    response = requests.get(f"{house.url}/v1/jobs/{job['id']}/events", stream=True, timeout=30,
                            headers={"Authorization": f"Bearer {alice.key}"})
    events = list(sseclient.SSEClient(response).events())
    assert set(kinds(events[:-1])) == {"progress"} and events[-1].event == "done" and all(event.data for event in events)
    assert "déjà vu" in events[-1].data and events[-1].id == str(alice.job(job["id"])["version"])


@pytest.mark.browser
def test_a_browser_s_eventsource(house, alice, chromium_path):
    """With the dashboard's cookie, on the server's own origin: progress, done, and no reconnecting after the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(f"{house.url}/ui/sign-in")
        page.fill("input[name=key]", alice.key)
        page.locator("input[name=key]").press("Enter")
        page.wait_for_url(lambda url: "sign-in" not in url)
        job = alice.submit("demo.drill", seconds=2, steps=5)
        seen = page.evaluate("""path => new Promise(resolve => {
            const seen = [], source = new EventSource(path);
            source.addEventListener("progress", event => seen.push([event.type, event.lastEventId]));
            source.addEventListener("done", event => { seen.push([event.type, event.lastEventId]) });
            source.onerror = () => { if (source.readyState === EventSource.CLOSED) resolve(seen) };   // after 204
        })""", f"/v1/jobs/{job['id']}/events")
        browser.close()
    assert [event for event, _ in seen].count("done") == 1 and seen[0][0] == "progress" and seen[-1][0] == "done"
    assert seen[-1][1] == str(alice.job(job["id"])["version"])


def test_the_eventsource_of_npm(house, alice, node):
    """Reconnects by itself with Last-Event-ID after the server closed, is told 204, and stays closed."""
    job = alice.submit("demo.drill", seconds=2, steps=8, value=7)
    heard = node("stream.mjs", {"url": f"{house.url}/v1/jobs/{job['id']}/events", "key": alice.key})
    assert heard["progress"] == sorted(heard["progress"]) and len(set(heard["progress"])) >= 5
    assert [(done["status"], done["result"], done["id"]) for done in heard["done"]] == [
        ("succeeded", {"value": 7}, str(alice.job(job["id"])["version"]))]
    assert heard["code"] == 204
