"""Downloads against a file that plain gunicorn serves, and the memory that a large upload takes.

    python bench/downloads.py [MIB to download] [MIB to upload]          default 512 and 2048

Prints one JSON object. `download.ratio` and `range.ratio` are our bytes per second over plain gunicorn's (aim: 0.9 and
more; best of five each, in turn); `upload.growth` is what the web process's largest resident size grew by, in MiB. Needs
curl, and twice the upload's room in the temporary folder.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.stack import wait_for  # noqa: E402
from tests.web.files import FileServer  # noqa: E402

MIB = 1 << 20
PLAIN = """
import os
def app(environ, start_response):
    file = open(os.environ["SERVED"], "rb")
    start_response("200 OK", [("Content-Type", "application/octet-stream"), ("Content-Length", str(os.fstat(file.fileno()).st_size))])
    return environ["wsgi.file_wrapper"](file, 262144)
"""


def seconds(url: str, *options: str) -> float:
    """How long curl takes."""
    ran = subprocess.run(["curl", "-sf", "-o", os.devnull, "-w", "%{time_total}", *options, url], capture_output=True, text=True,
                         check=True)
    return float(ran.stdout)


def downloads(web: FileServer, folder: Path, size: int) -> dict:
    row = web.upload(os.urandom(MIB) * (size // MIB), name="big.bin")
    (folder / "plain.py").write_text(PLAIN)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    plain = subprocess.Popen([sys.executable, "-m", "gunicorn", "plain:app", "-k", "gthread", "--threads", "8", "--bind",
                              f"127.0.0.1:{port}", "--chdir", str(folder), "--log-level", "error"],
                             env=os.environ | {"SERVED": str(web.store.local_path(row.key))})
    try:
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        key = ["-H", f"Authorization: Bearer {web.key('alice')}"]
        ours = f"{web.url}/v1/artifacts/{row.id}/content"
        times = [(seconds(f"http://127.0.0.1:{port}/"), seconds(ours, *key), seconds(row.link),
                  seconds(ours, *key, "-r", f"{size // 2}-")) for _ in range(5)]
    finally:
        plain.terminate()
        plain.wait()
    theirs, whole, link, half = (min(column) for column in zip(*times))
    return {"plain": {"MiB/s": round(size / MIB / theirs)},
            "download": {"MiB/s": round(size / MIB / whole), "ratio": round(theirs / whole, 2)},
            "link": {"MiB/s": round(size / MIB / link), "ratio": round(theirs / link, 2)},
            "range": {"MiB/s": round(size / 2 / MIB / half), "ratio": round(theirs / 2 / half, 2)}}


def upload(web: FileServer, size: int) -> dict:
    before, piece = peak(web.pid), os.urandom(MIB)
    connection = http.client.HTTPConnection("127.0.0.1", web.port)
    start = time.monotonic()
    connection.request("POST", "/v1/files?name=big", body=(piece for _ in range(size // MIB)),
                       headers={"Authorization": f"Bearer {web.key('alice')}", "Content-Length": str(size)})
    answer = connection.getresponse()
    assert answer.status == 201, answer.read()
    taken = time.monotonic() - start
    return {"MiB": size // MIB, "MiB/s": round(size / MIB / taken), "growth": round((peak(web.pid) - before) / MIB, 1)}


def peak(pid: int) -> int:
    """The largest resident size that the process ever had, in bytes."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def main(down: int, up: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        web = FileServer(Path(folder), max_upload=f"{max(up, down)}m", keepalive="15")
        try:
            web.http("alice").post("/v1/files", data=b"x" * MIB)  # what is imported at first use is no growth
            print(json.dumps(downloads(web, Path(folder), down * MIB) | {"upload": upload(web, up * MIB)}, indent=2))
        finally:
            web.stop()


if __name__ == "__main__":
    main(*(int(text) for text in (sys.argv[1:] + ["512", "2048"][len(sys.argv) - 1:])))
