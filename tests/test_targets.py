"""The guard on outbound addresses: hostile spellings, changing names, redirects, limits. Everything here is real."""

import hashlib
import os
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from jobs.addresses import AllowList, BadTarget, parse_host, parse_url
from jobs.connections import Unreachable
from jobs.errors import Problem, Retry
from jobs.settings import SettingsError
from jobs.targets import Guard, retry_after
from tests.outbound import DnsServer, http_server, reply

HOSTILE = """
http://127.0.0.1/ http://127.0.0.1:8202/ http://127.1/ http://127.0.1/ http://127.255.255.254/ http://0/
http://0.0.0.0/ http://0.0.0.0:80/ http://2130706433/ http://017700000001/ http://0x7f000001/ http://0x7f.0.0.1/
http://0x7f.1/ http://0177.0.0.1/ http://00000177.0.0.1/ http://127.0.0.01/ http://127.0.0.1./ http://127.0.0.1../
http://4294967297/ http://0X7F000001/ http://0x/ http://1.1.1.0x1/ http://127.0.0x0.1/ http://example.com.0x7f/
http://256.256.256.256/ http://localhost/ http://LOCALHOST/ http://localhost./ http://localhost:6379/
http://app.localhost/ http://10.0.0.1/ http://10.255.255.255/ http://172.16.0.1/ http://172.31.255.255/
http://192.168.1.1/ http://3232235777/ http://169.254.169.254/latest/meta-data/ http://169.254.169.254./
http://0xa9fea9fe/ http://2852039166/ http://0251.0376.0251.0376/ http://[fd00:ec2::254]/ http://100.100.100.200/
http://168.63.129.16/ http://192.0.0.192/ http://metadata.google.internal/computeMetadata/v1/ http://metadata.goog/
http://printer.local/ http://db.internal/ http://100.64.0.1/ http://100.127.255.255/ http://192.0.0.1/
http://192.0.2.1/ http://198.51.100.1/ http://203.0.113.1/ http://192.88.99.1/ http://198.18.0.1/
http://198.19.255.255/ http://224.0.0.1/ http://239.255.255.255/ http://240.0.0.1/ http://255.255.255.255/
http://[::]/ http://[::1]/ http://[0:0:0:0:0:0:0:1]/ http://[0000::1]/ http://[::ffff:127.0.0.1]/
http://[::ffff:7f00:1]/ http://[::ffff:8.8.8.8]/ http://[0:0:0:0:0:ffff:10.0.0.1]/ http://[::127.0.0.1]/
http://[::8.8.8.8]/ http://[64:ff9b::7f00:1]/ http://[64:ff9b::127.0.0.1]/ http://[64:ff9b::8.8.8.8]/
http://[64:ff9b:1::10.0.0.1]/ http://[2002:7f00:1::]/ http://[2002:0a00:0001::1]/ http://[2001:0:7f00:1::]/
http://[2001::1]/ http://[2001:db8::1]/ http://[3fff::1]/ http://[fc00::1]/ http://[fd12:3456::1]/ http://[fe80::1]/
http://[fe80::1%25eth0]/ http://[fe80::1%eth0]/ http://[::1%25lo]/ http://[fec0::1]/ http://[ff02::1]/
http://[ff0e::1]/ http://[100::1]/ http://[4000::1]/ http://[5f00::1]/ http://[::1]:9000/ http://[::1/ http://::1/
http://[127.0.0.1]/ http://[v1.a]/ http://①②⑦.⓪.⓪.①/ http://127。0。0。1/ http://１２７.0.0.1/ http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/
http://１６９.２５４.１６９.２５４/ http://user@example.com/ http://user:pass@example.com/ http://example.com@127.0.0.1/
http://127.0.0.1@example.com/ http://@example.com/ http://127.0.0.1:80@example.com/ http://127.0.0.1\\@example.com/
http://example.com\\.evil/ http:\\\\127.0.0.1/ http:/127.0.0.1/ http:127.0.0.1 //127.0.0.1/ http:///127.0.0.1/
http:// http://%31%32%37.0.0.1/ http://127.0.0.1%2f@example.com/ http://127.0.0.1%00.example.com/
http://example.com:0/ http://example.com:65536/ http://example.com:80:80/ http://example.com:-1/
http://example.com:+80/ http://example.com:８０/ http://exa_mple..com/ http://-example.com/ http://.example.com/
http://a‍b.com/ http://*.example.com/ ftp://example.com/ file:///etc/passwd gopher://127.0.0.1:6379/_INFO
data:text/plain,x javascript:alert(1) dict://127.0.0.1/ unix:///run/redis.sock jar:http://127.0.0.1!/
HTTP://127.0.0.1/ hTTpS://10.0.0.1/ https://127.0.0.1/ https://[::1]/ example.com
""".split() + [
    "", " http://127.0.0.1/", "http://127.0.0.1 /", "http://127.0.0.1\t/", "http://example.com/\r\nX: y",
    "http://127.0.0.1\x00/", "http://exa\u3000mple.com/", "http://ex\u00adample.127.0.0.1/",
    "http://example.com/\ud800", "http://" + "a" * 3000, None, 7, ["http://example.com/"], b"http://127.0.0.1/",
]


def nowhere(host, port):
    raise OSError("no such name")


@pytest.mark.parametrize("url", HOSTILE)
def test_a_hostile_address_is_refused_when_it_is_handed_in(url):
    with pytest.raises(Problem) as refused:
        Guard().check_url(url, "#/callbackUrl")
    assert (refused.value.slug, refused.value.status) == ("target-forbidden", 422)
    assert refused.value.extra["errors"] == [{"pointer": "#/callbackUrl", "detail": refused.value.detail}]


def test_the_list_of_hostile_addresses_is_long():
    assert len(set(map(str, HOSTILE))) == len(HOSTILE) > 120


@pytest.mark.parametrize("url, host, port, path", [
    ("http://8.8.8.8", "8.8.8.8", 80, "/"),
    ("HTTPS://Example.COM.:8443/A?b=%20#part", "example.com", 8443, "/A?b=%20"),
    ("https://[2606:4700::1111]/x", "2606:4700::1111", 443, "/x"),
    ("https://bücher.example/straße?q=ü", "xn--bcher-kva.example", 443, "/stra%C3%9Fe?q=%C3%BC"),
    ("https://example.com:/", "example.com", 443, "/"),
    ("https://example.com?x=1", "example.com", 443, "/?x=1"),
    ("https://a_b.example.com/@me", "a_b.example.com", 443, "/@me"),
    ("https://1.2.3.4a/", "1.2.3.4a", 443, "/"),
    ("http://example.com#@127.0.0.1:x@/", "example.com", 80, "/"),
])
def test_a_usual_address_passes_and_is_taken_apart_once(url, host, port, path):
    target = Guard(resolver=nowhere).check_url(url)
    assert (target.host, target.port, target.path) == (host, port, path)
    assert parse_url(target.url) == target


def test_the_origin_names_a_port_only_where_it_is_not_the_usual_one():
    urls = ("https://A.b:443/x", "http://a.b:443", "http://[::1]:80/", "http://[::1]:81/")
    assert [parse_url(url).origin for url in urls] == \
        ["https://a.b", "http://a.b:443", "http://[::1]", "http://[::1]:81"]


def test_a_name_is_judged_by_every_one_of_its_addresses():
    names = {"good.example": ["93.184.215.14", "2606:2800:21f::1"], "half.example": ["93.184.215.14", "10.0.0.7"],
             "six.example": ["93.184.215.14", "::1"], "mapped.example": ["::ffff:10.0.0.1"],
             "nat.example": ["64:ff9b::a00:1"]}
    dns = DnsServer(lambda name, asked: names.get(name, []))
    guard = Guard(resolver=dns.resolve)
    assert guard.check_url("https://good.example/").host == "good.example"
    assert guard.check_url("https://unknown.example/").host == "unknown.example"
    for name in ("half.example", "six.example", "mapped.example", "nat.example"):
        with pytest.raises(Problem):
            guard.check_url(f"https://{name}/")
    dns.close()


def test_a_name_that_changes_its_answer_is_refused_at_connect_time():
    reached = []
    with http_server(lambda handler: (reached.append(handler.path), reply(handler))) as port:
        dns = DnsServer(lambda name, asked: ["93.184.215.14"] if asked == 0 else ["127.0.0.1"])
        guard = Guard(resolver=dns.resolve)
        url = f"http://rebind.example:{port}/"
        guard.check_url(url)
        with pytest.raises(Problem) as refused:
            guard.request("POST", url, body=b"{}")
        assert refused.value.slug == "target-forbidden"
        assert dns.asked["rebind.example"] == 2
        dns.close()
    assert reached == []


def test_the_connection_goes_to_the_address_that_was_checked():
    """A name that is good at the check and bad at any later question: there is no later question."""
    def host(handler):
        reply(handler, body=handler.headers["Host"].encode())

    with http_server(host) as port:
        dns = DnsServer(lambda name, asked: ["127.0.0.1"] if asked == 0 else ["10.9.9.9"])
        guard = Guard(["127.0.0.0/8"], resolver=dns.resolve)
        answer = guard.request("GET", f"http://Flip.Example.:{port}/")
        assert (answer.status, answer.body) == (200, f"flip.example:{port}".encode())
        assert dns.asked["flip.example"] == 1
        dns.close()


def test_a_dead_first_address_does_not_hide_the_second():
    with http_server(reply) as port:
        dns = DnsServer(lambda name, asked: ["127.0.0.9", "127.0.0.1"])
        assert Guard(["127.0.0.0/8"], resolver=dns.resolve).request("GET", f"http://two.example:{port}/").status == 200
        dns.close()


@pytest.mark.parametrize("entry, url, passes", [
    ("127.0.0.1", "http://127.0.0.1:{port}/", True),
    ("127.0.0.0/8", "http://localhost:{port}/", True),
    ("localhost", "http://LOCALHOST.:{port}/", True),
    ("localhost", "http://127.0.0.1:{port}/", False),
    ("127.0.0.1:{port}", "http://127.0.0.1:{port}/", True),
    ("127.0.0.0/8:1", "http://127.0.0.1:{port}/", False),
    ("localhost:{port}", "http://localhost:{port}/", True),
    ("localhost:1", "http://localhost:{port}/", False),
    ("10.0.0.0/8", "http://127.0.0.1:{port}/", False),
    ("[::1]:{port}", "http://[::1]:{port}/", True),
    ("[::1]:1", "http://[::1]:{port}/", False),
    ("::1", "http://[::1]:{port}/", True),
    ("[fd00::/8]", "http://[fd00::7]:{port}/", True),
    ("127.0.0.0/8", "http://0x7f.1:{port}/", False),
    ("127.0.0.0/8", "http://[::ffff:127.0.0.1]:{port}/", False),
])
def test_the_operators_list_lets_through_what_it_names_and_no_more(entry, url, passes):
    guard = Guard([entry.format(port=9000)], resolver=lambda host, port: ["127.0.0.1"])
    if passes:
        assert guard.check_url(url.format(port=9000)).port == 9000
    else:
        with pytest.raises(Problem):
            guard.check_url(url.format(port=9000))


def test_a_listed_inner_name_passes_while_it_does_not_resolve():
    assert Guard(["hooks.internal"], resolver=nowhere).check_url("http://hooks.internal/").inner


@pytest.mark.parametrize("entry", ["10.0.0.1/8", "host:0", "host:99999", "a b", "[::1", "0x7f.1", "http://x",
                                   "fd00::/8:1", "", "x:y"])
def test_an_unreadable_entry_stops_the_start(entry):
    with pytest.raises(SettingsError, match="ALLOWED_TARGETS"):
        AllowList([entry])


def test_a_host_is_an_address_or_a_name():
    assert parse_host("[2001:DB8::0:1]") == "2001:db8::1"
    with pytest.raises(BadTarget):
        parse_host("")


LOOPBACK = ["127.0.0.0/8"]


def python(code, **environ):
    """What a fresh Python prints."""
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | environ, capture_output=True, text=True,
                          check=True, cwd=Path(__file__).parent.parent)
    return done.stdout.strip()


def test_a_redirect_is_an_answer_to_a_request():
    with http_server(lambda handler: reply(handler, 302, Location="http://127.0.0.1:1/")) as port:
        assert Guard(LOOPBACK).request("POST", f"http://127.0.0.1:{port}/", body=b"x").status == 302


def test_proxies_of_the_environment_are_not_used():
    with http_server(reply) as port:
        proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"), "http://127.0.0.1:1")
        said = python(f"""
from jobs.targets import Guard
print(Guard(["127.0.0.1"]).request("GET", "http://127.0.0.1:{port}/").status)
""", **proxies)
    assert said == "200"


def drip(handler):
    """Answer so slowly that every single step is in time."""
    try:
        for byte in b"HTTP/1.1 200 OK\r\nX-Padding: " + b"x" * 5000:
            handler.wfile.write(bytes([byte]))
            time.sleep(0.02)
    except OSError:
        pass
    handler.close_connection = True


def test_a_time_limit_bounds_the_whole_exchange():
    with http_server(drip) as port:
        began = time.monotonic()
        with pytest.raises(Unreachable) as fault:
            Guard(LOOPBACK).request("GET", f"http://127.0.0.1:{port}/", timeout=0.5)
    assert fault.value.kind == "timeout" and time.monotonic() - began < 50


def test_a_resolver_that_hangs_is_not_waited_for():
    release = threading.Event()
    guard = Guard(resolver=lambda host, port: release.wait(60) and [])
    began = time.monotonic()
    with pytest.raises(Unreachable) as fault:
        guard.request("GET", "http://slow.example/", timeout=0.3)
    release.set()
    assert fault.value.kind == "dns" and time.monotonic() - began < 30


def test_the_head_of_an_answer_counts_and_its_body_is_an_excerpt():
    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"y" * 65536)
        except OSError:
            handler.close_connection = True

    def broken(handler):
        handler.wfile.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 50\r\n\r\nhalf")
        handler.close_connection = True

    with http_server(endless) as port:
        answer = Guard(LOOPBACK).request("POST", f"http://127.0.0.1:{port}/", body=b"x")
        assert (answer.status, answer.body) == (200, b"y" * 1024)
    with http_server(broken) as port:
        answer = Guard(LOOPBACK).request("POST", f"http://127.0.0.1:{port}/")
        assert (answer.status, answer.body) == (202, b"half")


def test_each_way_to_fail_has_its_name():
    def silent(handler):
        handler.close_connection = True

    def nonsense(handler):
        handler.wfile.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        handler.close_connection = True

    def kind(url):
        with pytest.raises(Unreachable) as fault:
            Guard(LOOPBACK, resolver=nowhere).request("GET", url, timeout=5)
        return fault.value.kind

    assert kind("http://127.0.0.1:1/") == "connect"
    assert kind("http://unknown.example/") == "dns"
    with http_server(silent) as port:
        assert kind(f"http://127.0.0.1:{port}/") == "connect"
    with http_server(nonsense) as port:
        assert kind(f"http://127.0.0.1:{port}/") == "protocol"
    with http_server(reply) as port:
        assert kind(f"https://127.0.0.1:{port}/") == "tls"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for secure.example, and the file to trust it by."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=secure.example", "-addext", "subjectAltName=DNS:secure.example",
                    "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    return folder


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("name, outcome", [("secure.example", "200 secure.example"), ("other.example", "tls")])
def test_tls_checks_the_name_and_sends_it(certificate, name, outcome):
    seen = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    context.sni_callback = lambda sock, server_name, _: seen.append(server_name)
    code = f"""
from jobs.targets import Guard
from jobs.connections import Unreachable
guard = Guard(["127.0.0.1"], resolver=lambda host, port: ["127.0.0.1"])
try:
    answer = guard.request("GET", "https://{name}:PORT/", timeout=5)
    print(answer.status, answer.body.decode().partition(":")[0])
except Unreachable as error:
    print(error.kind)
"""
    with http_server(lambda handler: reply(handler, body=handler.headers["Host"].encode()),
                     wrap=lambda sock: context.wrap_socket(sock, server_side=True)) as port:
        said = python(code.replace("PORT", str(port)), SSL_CERT_FILE=str(certificate / "cert.pem"))
    assert said == outcome
    assert seen == [name]
