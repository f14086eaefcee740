"""Under a path of a site, behind a real nginx with TLS, configured by deploy/nginx.conf as it lies there."""

import re
import socket
import subprocess
from pathlib import Path

import pytest
import requests
from playwright.sync_api import expect

from tests.e2e.browsing import link_for, press
from tests.stack import ROOT, Api, wait_for

pytestmark = pytest.mark.needs("nginx", "openssl")
FRAME = """
daemon off; pid {folder}/nginx.pid; error_log stderr; {user}
events {{}}
http {{
  access_log off; types {{}}
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u;
  scgi_temp_path {folder}/s;
  {site}
}}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@pytest.fixture
def site(stack, tmp_path):
    """The server behind nginx; the address at which the world sees it."""
    port, door = free_port(), free_port()
    certificate, key = stack.folder / "site.pem", stack.folder / "site.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    for there, here in (("listen 443 ssl", f"listen 127.0.0.1:{door} ssl"), ("server_name example.org", "server_name localhost"),
                        ("/etc/ssl/example.org.pem", str(certificate)), ("/etc/ssl/example.org.key", str(key)),
                        ("http://127.0.0.1:8202/", f"http://127.0.0.1:{port}/")):
        assert there in text, there
        text = text.replace(there, here)
    root = subprocess.run(["id", "-u"], capture_output=True, text=True, check=True).stdout.strip() == "0"
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(FRAME.format(folder=tmp_path, user="user root;" if root else "", site=text))
    url = f"https://localhost:{door}/accepted"
    stack.settings |= {"port": str(port), "public_url": url, "trusted_proxies": "127.0.0.1/32"}
    stack.start()
    nginx = subprocess.Popen(["nginx", "-p", tmp_path, "-c", configuration], stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: _answers(url, certificate), what="nginx")
        yield url
    finally:
        nginx.terminate()
        nginx.communicate(timeout=60)


def client(url: str, key: str, certificate: Path) -> Api:
    """A session that trusts this certificate and nothing of the environment."""
    api = Api(url, key)
    api.verify, api.trust_env = str(certificate), False
    return api


def _answers(url: str, certificate: Path) -> bool:
    try:
        return client(url, "", certificate).get("/livez").ok
    except requests.ConnectionError:
        return False


def test_a_client_sees_one_address_only(stack, site):
    api = client(site, stack.session("alice").key, stack.folder / "site.pem")
    answer = api.post("/v1/jobs", json={"type": "demo.drill", "payload": {"seconds": 60, "steps": 600}}, headers={"Prefer": "respond-async"})
    assert answer.status_code == 202
    job = answer.headers["Location"]
    assert job.startswith(f"{site}/v1/jobs/")
    with api.get(f"{job}/events", stream=True) as stream:       # frames pass as they come: the job is far from its end
        assert next(line for line in stream.iter_lines() if line.startswith(b"data:"))
    assert api.post(f"{job}:cancel").status_code in (200, 202)
    ended = wait_for(lambda: (found := api.get(f"{job}?wait=20").json())["finishedAt"] and found)
    assert ended["status"] == "cancelled"
    upload = api.post("/v1/files?name=big.bin", data=b"x" * 3_000_000)
    assert upload.status_code == 201 and upload.headers["Location"].startswith(f"{site}/v1/artifacts/")
    part = api.get(f"{upload.headers['Location']}/content", headers={"Range": "bytes=2999999-"})
    assert (part.status_code, part.content) == (206, b"x")


def test_the_dashboard_lives_under_a_path(browser, stack, site):
    api = client(site, stack.session("alice").key, stack.folder / "site.pem")
    context = browser.new_context(ignore_https_errors=True, locale="en-GB")
    complaints: list[str] = []
    context.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(site + "/ui/" + link_for(stack, api.key).partition("/ui/")[2])
    press(page, "Sign in", page.get_by_role("main"))
    page.wait_for_url(f"{site}/ui/")
    [cookie] = [one for one in context.cookies() if one["name"].endswith("accepted")]
    assert cookie["secure"] and cookie["httpOnly"]
    expect(page.locator("#live")).to_have_text("Live")
    page.get_by_role("link", name="New job").click()
    page.get_by_role("link", name="Drill").click()
    page.locator("[name='payload.artifact']").fill("notes.txt")
    press(page, "Submit")
    page.wait_for_url(re.compile(re.escape(site) + r"/ui/jobs/\d+$"))
    expect(page.locator("article")).to_have_attribute("data-status", "succeeded")
    with page.expect_download() as download:
        page.get_by_role("link", name="notes.txt").first.click()
    assert download.value.url.startswith(f"{site}/")
    page.goto(f"{site}/ui/jobs")
    expect(page.locator("#live")).to_have_text("Live")
    job = api.submit("demo.drill", seconds=0)
    page.get_by_role("link", name="1 new job").click()
    expect(page.locator(f"#job-{job['id']}")).to_be_visible()
    context.close()
    assert not [text for text in complaints if "Failed to load resource" not in text], complaints
