"""Read the text of pictures and scanned pages: lines with their boxes, in Chinese and English.

The work is done by `child`, a process for each job: the models take most of a gigabyte, which the machine gets back at
the end of the job, and no foreign file is decoded in a process that holds the database. It is an extra: where its
packages are not installed, the type says so.
"""

import json
import signal
import sys
from pathlib import Path
from typing import IO, Any

from marshmallow import RAISE, Schema, ValidationError, fields, validate, validates_schema

from jobs import Context, Problem, job_type

INLINE = 256 * 1024      # bytes of pages as JSON that the result itself holds
_ROOT = Path(__file__).resolve().parents[3]


class Payload(Schema):
    """What to read, and which of its pages."""

    class Meta:
        unknown = RAISE

    sourceUrl = fields.Str(required=True, metadata={
        "input": True, "title": "Picture or PDF",
        "description": "A PNG, JPEG, TIFF, WebP or PDF: the url that POST /v1/files answered, or an http(s) address."})
    firstPage = fields.Int(strict=True, validate=validate.Range(min=1, max=100_000), metadata={
        "title": "First page", "description": "1 if not said."})
    lastPage = fields.Int(strict=True, validate=validate.Range(min=1, max=100_000), metadata={
        "title": "Last page", "description": "The source's last page if not said."})

    @validates_schema
    def _in_order(self, data: dict[str, Any], **_: Any) -> None:
        if data.get("lastPage", 100_000) < data.get("firstPage", 1):
            raise ValidationError({"lastPage": ["It comes before the first page."]})


# One at a time, because of the memory; and it uses all cores.
@job_type("ocr.read", title="Read text from pictures and scans", collection="readings", payload=Payload, concurrency=1,
          requires=("rapidocr", "onnxruntime", "pypdfium2", "PIL"), extra="ai",
          resource=lambda payload: {"sourceUrl": payload["sourceUrl"]})
def read_text(job: Context, sourceUrl: str, firstPage: int = 1, lastPage: int | None = None):
    """Read the text of a picture or of scanned pages, in Chinese and English: each line with its box and confidence."""
    job.stage("opening the source")
    path = job.open_input(sourceUrl)
    with job.artifact("pages.json", "application/json") as pages, job.artifact("text.txt", "text/plain") as text:
        reading = Reading(job, pages, text)
        reading.run([path, firstPage, lastPage or 0])
    for page, reason in reading.failed.items():
        job.skip(f"page {page}", reason)
    summary = {"pageCount": reading.pages, "lineCount": reading.lines, "files": [
        {"name": name, "href": f"{job.resource}/{name}", "artifact": out.href, "download_url": out.url,
         "expires_at": out.expires_at} for name, out in (("pages.json", pages), ("text.txt", text))]}
    job.describe(**summary)
    return summary | {"pages": reading.inline}


class Reading:
    """Follows the child and writes down each page as it comes: a thick book takes no more memory than a leaf."""

    def __init__(self, job: Context, pages: IO[bytes], text: IO[str]):
        self.job, self._json, self._text = job, pages, text
        self.pages = self.lines = 0
        self.failed: dict[int, str] = {}                    # number of the page -> why
        self.inline: list[dict[str, Any]] | None = []       # None once they are too much for a result
        self._room = INLINE
        self._total: int | None = None

    def run(self, what: list[Any]) -> None:
        """Read to the end. Problem when nothing could be read; ChildProcessError when it is worth another attempt."""
        # numpy's own threads would only add to those of the models, which `child` counts.
        argv = ["nice", "-n", "5", "env", "OMP_NUM_THREADS=1",
                sys.executable, "-m", "jobs.types.ocr.child", *map(str, what)]
        self._json.write(b'{"pages": [')
        done = self.job.run_process(argv, on_line=self._hear, cwd=_ROOT, check=False, log=False)
        self._json.write(b"\n]}\n")
        if done.returncode == -signal.SIGKILL:
            raise ChildProcessError("the reading was killed, often for lack of memory")
        if done.returncode < 0:     # a fault of a library, brought about by this very file
            place = f"page {self._done + 1} of {self._total} wanted" if self._total else "the beginning"
            raise Problem("source-unreadable", f"The decoder broke down over it, at {place}.")
        if done.returncode:
            raise ChildProcessError((done.stderr_tail.strip() or "the reading gave no reason for its end").splitlines()[-1])
        if not self.pages:
            page, reason = next(iter(self.failed.items()))
            raise Problem("source-unreadable", f"No page could be read. Page {page}: {reason}.")

    def _hear(self, line: str) -> None:
        """Take in what the child says, one JSON object in a line."""
        match json.loads(line):
            case {"refused": [slug, detail]}:
                raise Problem(slug, detail)
            case {"total": total}:
                self._total = total
            case {"page": page}:
                self._keep(page)
            case {"failed": [page, reason]}:
                self.failed[page] = reason
                self.job.log(f"page {page}: {reason}")
        number = min(self._done + 1, self._total)
        self.job.progress(self._done, self._total, stage=f"reading page {number} of {self._total}")

    @property
    def _done(self) -> int:
        return self.pages + len(self.failed)

    def _keep(self, page: dict[str, Any]) -> None:
        written = json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode()
        self._json.write((b",\n" if self.pages else b"\n") + written)
        self._text.write(("\f" if self.pages else "") + "".join(f"{line['text']}\n" for line in page["lines"]))
        self.pages += 1
        self.lines += len(page["lines"])
        self._room -= len(written)
        if self._room < 0:
            self.inline = None
        elif self.inline is not None:
            self.inline.append(page)
