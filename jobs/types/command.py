"""Programs that the operator declared, each a job type `command.NAME`: no shell, typed parameters, files in and out.

The file that ACCEPTED_COMMANDS names is TOML, a table for each command; docs/commands.md describes it. A parameter takes the
place of `{its name}` inside one word of the command line and can become neither a second word nor, at the beginning of
one, an option.
"""

import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs import Context, Problem, Retry, job_type
from jobs.settings import Settings
from jobs.types.command_file import Command, Exit, read
from jobs.work.command import Finished, ProcessFailed
from jobs.work.job_type import JobType

_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ")    # of the server's environment; the rest is not the program's business
_LONGEST = 500      # characters of a line in which the percent is sought, and of one that is quoted


def declare(settings: Settings) -> list[JobType]:
    """A job type for each command of the file. DeclarationError says where the file is wrong."""
    return [_declared(command) for command in read(Path(settings.commands).expanduser())] if settings.commands else []


def _declared(command: Command) -> JobType:
    def handler(job: Context, **given: Any) -> dict[str, Any]:
        return Run(command, job, given).result()

    handler.__doc__ = command.description
    return job_type(f"command.{command.name}", title=command.title, payload=command.fields(), timeout=command.timeout,
                    concurrency=command.concurrency, max_attempts=command.max_attempts, words=command.words)(handler)


@dataclass(frozen=True)
class Run:
    """One run of a command."""

    command: Command
    job: Context
    given: Mapping[str, Any]

    def result(self) -> dict[str, Any]:
        """What the job answers: the exit status and the files that were made. Problem `command-failed`; Retry."""
        self.job.stage("preparing")
        folder = self.job.scratch("files")
        folder.mkdir()
        places = {name: str(folder / output.file) for name, output in self.command.outputs.items()}
        for name, parameter in self.command.parameters.items():
            if parameter.kind == "file" and self.given.get(name) is not None:
                places[name] = str(self._copy(self.given[name]))
        self.job.stage(f"running {self.command.name}")
        finished = self.job.run_process(list(self._words(places)), on_line=self._take, cwd=folder, check=False,
                                        env=self._environment(folder))
        self._judge(finished)
        self.job.stage("keeping the files")
        return {"exitCode": finished.returncode, "files": list(self._files(places))}

    def _copy(self, source: str) -> Path:
        """The file under its own name, in plain characters, and for the program to do with as it likes."""
        copy = self.job.scratch(re.sub(r"[^\w.-]+", "_", self.job.name_of(source)))
        shutil.copyfile(self.job.open_input(source), copy)
        return copy

    def _words(self, places: Mapping[str, str]) -> Iterator[str]:
        """The command line. A word with a parameter that was not given, or a flag that is off, is left out."""
        for word in self.command.argv:
            names = re.findall(r"\{(\w+)\}", word)
            texts = {name: self._text(name, places) for name in names}
            if None not in texts.values():
                yield re.sub(r"\{(\w+)\}", lambda match: texts[match[1]], word)

    def _text(self, name: str, places: Mapping[str, str]) -> str | None:
        if name in places:
            return places[name]
        value, parameter = self.given.get(name), self.command.parameters[name]
        if parameter.kind == "flag":
            return parameter.word if value else None
        if isinstance(value, float):
            value = value or 0      # -0.0 would begin with a dash
        return None if value is None else str(value)

    def _environment(self, folder: Path) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return inherited | {"HOME": str(folder), "TMPDIR": str(folder)} | self.command.env

    def _take(self, line: str) -> None:
        """One line of the output: into the log, and its percent to whoever watches."""
        percent = self._percent(line[:_LONGEST])
        if percent is None:
            self.job.log(line)
        else:
            self.job.progress(percent, 100)

    def _percent(self, line: str) -> float | None:
        """What the line says of the progress; None if it says nothing, or no number."""
        match = self.command.percent and self.command.percent.search(line)
        try:
            percent = float(match[1]) if match else math.nan
        except (TypeError, ValueError):
            return None
        return percent if math.isfinite(percent) else None

    def _judge(self, finished: Finished) -> None:
        if finished.returncode == 0:
            return
        if finished.returncode < 0:     # somebody killed it: another attempt may do
            raise ProcessFailed(list(self.command.argv), finished)
        meaning = self.command.exits.get(finished.returncode, Exit())
        last = finished.stderr_tail.strip().splitlines()[-1:] or ["it said nothing"]
        problem = Problem("command-failed", f"{self.command.name} ended with {finished.returncode}: "
                          f"{meaning.title or last[0][:_LONGEST]}", status=meaning.status, exitCode=finished.returncode)
        if meaning.retry is not None:
            raise Retry(meaning.retry, problem=problem)
        raise problem

    def _files(self, places: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        for name, output in self.command.outputs.items():
            path = Path(places[name])
            if path.is_symlink() or not path.is_file():
                if output.optional:
                    continue
                raise Problem("command-failed", f"{self.command.name} ended with 0 but did not make {output.file}.")
            made = self.job.artifact_of(path, output.file, output.media_type)
            yield {"name": output.file, "artifact": made.href, "download_url": made.url, "expires_at": made.expires_at}
