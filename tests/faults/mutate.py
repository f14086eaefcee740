"""Shows that the tests hold the guards: takes one away at a time, in a copy of the tree, and expects them to fail.

    python tests/faults/mutate.py [NAME …]  some minutes; the exit code is the number of guards whose absence nobody notices

Not part of `./run test`: run it after a change to what it mutates. A guard whose text has changed is reported.
"""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Guard:
    """Text that occurs once in a file, what stands there without the guard, and the tests that should notice."""

    name: str
    file: str
    text: str
    without: str
    tests: str


GUARDS = (
    Guard("status", "jobs/core/lifecycle.py", "WHERE id = :id AND status = :source {guard}", "WHERE id = :id {guard}",
          "tests/core/test_lifecycle.py"),
    Guard("attempt", "jobs/core/lifecycle.py", 'guard = "" if attempt is None else "AND attempt = :guard"', 'guard = ""',
          "tests/core/test_lifecycle.py"),
    Guard("attempt of a beat", "jobs/core/lifecycle.py", "beat = beat + 1 WHERE job_id = :id AND attempt = :attempt",
          "beat = beat + 1 WHERE job_id = :id", "tests/core/test_lifecycle.py"),
    Guard("turn on SQLite", "jobs/turn.py", "fcntl.lockf(file, fcntl.LOCK_EX)", "pass", "tests/core/test_db.py"),
    Guard("turn on PostgreSQL", "jobs/engines.py", "SELECT pg_advisory_xact_lock({_ADVISORY_LOCK}), pg_current_xact_id()::text",
          "SELECT {_ADVISORY_LOCK}, pg_current_xact_id()::text", "tests/core/test_db.py"),
    Guard("lease, at the last look", "jobs/work/sweeper.py", "problem) if beat == row.beat else None", "problem)",
          "tests/faults/test_leases.py"),
    Guard("lease, when no beat can be written", "jobs/work/sweeper.py", "self._db.check()", "pass", "tests/faults/test_leases.py"),
    Guard("lease, in a machine that stood still", "jobs/work/sweeper.py", "min(self._looked - since, self._lease / 3)",
          "self._looked - since", "tests/faults/test_leases.py"),
    Guard("lease of a late log line", "jobs/core/journal.py", "for at, line in lines if running else ():", "for at, line in lines:",
          "tests/core/test_lifecycle.py"),
    Guard("idempotency key", "jobs/core/submission.py", "if earlier is not None:", "if False:", "tests/core/test_db.py"),
    Guard("fate of a lost COMMIT", "jobs/db.py", "committed = committing and self._engine.committed(mark)", "committed = False",
          "tests/core/test_db.py"),
    Guard("claim whose COMMIT is unknown", "jobs/work/horse.py", "if self._unsure and", "if False and", "tests/work/test_horse.py"),
    Guard("end of an attempt, repeated", "jobs/core/lifecycle.py", "WHERE id = :id AND status = :source {guard}",
          "WHERE id = :id {guard}", "tests/work/test_horse.py"),
    Guard("mark of a dead part", "jobs/leash.py", "or _mark(pid) in marks", "", "tests/test_leash.py"),
    Guard("mark of a part", "jobs/supervisor.py", "leash.bear(self.mark)", "pass", "tests/test_supervisor.py"),
    Guard("fork", "jobs/engines.py", "self._inherited = self._inherited or self._open", "pass", "tests/core/test_db.py"),
)


def fails(tree: Path, tests: str) -> bool:
    """Whether the tests fail there."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", *tests.split()], cwd=tree, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode == 1


def main() -> int:
    """One line for each guard, or for those named on the command line."""
    missed, wanted = 0, sys.argv[1:]
    guards = [guard for guard in GUARDS if not wanted or guard.name in wanted]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv", "var", "__pycache__", ".pytest_cache"))
        whole = " ".join(sorted({guard.tests for guard in guards}))
        assert not fails(tree, whole), "the tests fail even with all guards"
        for guard in guards:
            path = tree / guard.file
            text = path.read_text()
            if text.count(guard.text) != 1:
                verdict = "NOT FOUND: its text has changed"
            else:
                path.write_text(text.replace(guard.text, guard.without))
                verdict = "its absence is noticed" if fails(tree, guard.tests) else "NOT NOTICED"
                path.write_text(text)
            missed += verdict.startswith("NOT")
            print(f"{guard.name:40} {verdict}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
