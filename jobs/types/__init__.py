"""What the server can do: one file or folder for each built-in job type, and the folders that a team adds."""

import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

from jobs.settings import Settings
from jobs.work.job_type import DeclarationError, JobType, Registry

BUILT_IN = ("video", "ocr", "article", "report", "fetch", "command")
DRILLS = ("drill",)


def load_registry(settings: Settings) -> Registry:
    """The built-in types and those found in the folders of ACCEPTED_JOB_MODULES.

    DeclarationError or SettingsError says what is wrong.
    """
    names = BUILT_IN + (DRILLS if settings.drills else ())
    types = [found for name in names for found in _built_in(import_module(f"jobs.types.{name}"), settings)]
    for folder in settings.job_modules:
        types += [found for module in _load_folder(Path(folder).expanduser()) for found in declared_in(module)]
    return Registry(_limited(types, settings))


def _built_in(module: ModuleType, settings: Settings) -> list[JobType]:
    """What a module declares: at its top, or by `declare(settings)` where the settings have a say in it."""
    return module.declare(settings) if hasattr(module, "declare") else declared_in(module)


def declared_in(module: ModuleType) -> list[JobType]:
    """The declarations at the top of a module, in the order in which they stand there."""
    return [value for value in vars(module).values() if isinstance(value, JobType)]


def _limited(types: Iterable[JobType], settings: Settings) -> list[JobType]:
    """The types with the limits that the operator has set instead of their own."""
    chosen, known = settings.concurrency, sorted(declared.name for declared in types)
    for name in chosen.keys() - set(known):
        raise DeclarationError(f"ACCEPTED_CONCURRENCY: there is no job type {name!r}; there are {', '.join(known)}.")
    return [replace(declared, concurrency=chosen[declared.name] or None) if declared.name in chosen else declared
            for declared in types]


def _load_folder(folder: Path) -> list[ModuleType]:
    if not folder.is_dir():
        raise DeclarationError(f"ACCEPTED_JOB_MODULES: there is no folder {folder}.")
    return [_load_file(path) for path in sorted(folder.glob("*.py")) if not path.name.startswith("_")]


def _load_file(path: Path) -> ModuleType:
    name = f"accepted_job_modules.{path.parent.name}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except DeclarationError as error:
        raise DeclarationError(f"{path}: {error}") from None
    except Exception as error:
        raise DeclarationError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module
