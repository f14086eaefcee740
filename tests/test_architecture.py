"""The house keeps its shape: imports point down the floors, and each room holds what belongs there."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ["ground", "core", "artifacts webhooks", "work", "types", "web", "top"]
GROUND = {"settings", "settings_table", "clock", "errors", "db", "engines", "leash", "sql", "turn", "doorbell", "targets", "downloads", "partials", "addresses", "connections"}
MODULES = sorted(path for path in [ROOT / "app.py", ROOT / "wsgi.py", *(ROOT / "jobs").rglob("*.py")])


def floor_of(name: str) -> int:
    """How high a module (`jobs.core.reads`) stands."""
    room = name.split(".")[1] if name.startswith("jobs.") else ""
    if room in GROUND:
        return 0
    return next((height for height, rooms in enumerate(FLOORS) if room in rooms.split()), len(FLOORS) - 1)


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> set[str]:
    """Modules of ours that a file imports, however deep inside."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                is_module = (ROOT / Path(*below.split("."))).with_suffix(".py").exists() or (ROOT / Path(*below.split("."))).is_dir()
                found.add(below if is_module else node.module)
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_down(path):
    ours = {name for name in imports(path) if name.startswith("jobs.")}
    here = name_of(path)
    upward = {name for name in ours if floor_of(name) > floor_of(here)}
    if here == "jobs" or here.startswith("jobs.types"):
        upward = set()  # the package's door opens lazily; types may use each other
    assert not upward, f"{here} stands below what it imports"


def test_web_knows_declarations_and_nothing_else_of_how_jobs_run():
    for path in (ROOT / "jobs/web").rglob("*.py"):
        seen = {name for name in imports(path) if name.startswith(("jobs.work", "jobs.types"))}
        assert seen <= {"jobs.work.job_type"}, path


def test_rq_stays_in_its_rooms():
    allowed = {"jobs.work.worker", "jobs.work.dispatcher", "jobs.work.tickets", "jobs.serve"}
    users = {name_of(path) for path in MODULES if any(name.split(".")[0] == "rq" for name in imports(path))}
    assert users <= allowed


def test_pickle_is_nowhere():
    assert not [path for path in MODULES if {"pickle", "marshal", "shelve", "dill"} & imports(path)]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_files_stay_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 320


def test_the_time_is_asked_of_the_clock():
    """`datetime.now` and `time.time` stand in clock.py only, so that a test can move time.

    But for the ages of files, which the file system dates itself, and gunicorn's access log.
    """
    askers = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in {
                    ("datetime", "now"), ("datetime", "utcnow"), ("time", "time")}:
                askers.add(name_of(path))
    assert askers == {"jobs.clock", "jobs.artifacts.store", "jobs.artifacts.remote", "jobs.artifacts.leftovers",
                       "jobs.live_worker"}


def test_job_types_import_heavy_libraries_only_when_they_run():
    code = "import sys; from jobs import settings; from jobs.types import load_registry; load_registry(settings.load({})); " \
           "print(' '.join(sorted({name.split('.')[0] for name in sys.modules})))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert not {"flask", "sqlalchemy", "imageio_ffmpeg", "numpy", "typst", "xlsxwriter", "pyarrow", "onnxruntime", "rapidocr", "cv2", "PIL",
                "pypdfium2"} & set(loaded)
