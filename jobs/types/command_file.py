"""The file of the operator's commands, read and judged at the start: what is wrong is named with file, table and remedy."""

import re
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marshmallow import ValidationError, fields, validate

from jobs.settings import duration
from jobs.work.job_type import DeclarationError

KINDS = ("text", "integer", "number", "flag", "choice", "file")
_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Parameter:
    """What a client may say. `low` and `high` bound a number; `word` is what a flag that is on puts on the command line."""

    kind: str
    title: str = ""
    description: str = ""
    required: bool = True
    default: Any = None
    low: float | None = None
    high: float | None = None
    pattern: str = ""
    longest: int = 200
    choices: tuple[str, ...] = ()
    word: str = ""

    def field(self, leads: bool) -> fields.Field:
        """The field of the payload; `leads`: it stands at the beginning of a word, where a dash would make an option."""
        options: dict[str, Any] = {"metadata": {"title": self.title, "description": self.description}}
        if self.kind == "flag":
            return fields.Bool(truthy={True}, falsy={False}, load_default=False, **options)
        if self.default is not None or not self.required:
            options |= {"load_default": self.default, "allow_none": self.default is None}
        else:
            options["required"] = True
        if self.kind == "file":
            options["metadata"]["input"] = True
            return fields.Str(**options)
        if self.kind in ("integer", "number"):
            bounds = validate.Range(self.low, self.high)
            return (fields.Int(strict=True, validate=bounds, **options) if self.kind == "integer"
                    else fields.Float(validate=bounds, **options))
        if self.kind == "choice":
            return fields.Str(validate=validate.OneOf(self.choices), **options)
        rules = [validate.Length(max=self.longest), _no_control] + ([_no_dash] if leads else [])
        rules += [validate.Regexp(f"(?:{self.pattern})\\Z")] if self.pattern else []
        return fields.Str(validate=rules, **options)


@dataclass(frozen=True)
class Output:
    """A file that the command makes in its folder."""

    file: str
    media_type: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class Exit:
    """What an exit status means: a problem with this title and status, or another attempt after `retry` seconds."""

    title: str = ""
    status: int = 422
    retry: float | None = None


@dataclass(frozen=True)
class Command:
    """One table of the file."""

    name: str
    argv: tuple[str, ...]
    title: str = ""
    description: str = ""
    percent: re.Pattern | None = None
    timeout: int | None = None
    concurrency: int | None = None
    max_attempts: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    exits: Mapping[int, Exit] = field(default_factory=dict)

    def fields(self) -> dict[str, fields.Field]:
        """The payload's fields."""
        return {name: parameter.field(any(word.startswith(f"{{{name}}}") for word in self.argv))
                for name, parameter in self.parameters.items()}


def read(path: Path) -> list[Command]:
    """The commands of a file. DeclarationError."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise DeclarationError(f"ACCEPTED_COMMANDS: {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeclarationError(f"ACCEPTED_COMMANDS: {path} is no TOML: {error}.") from None
    found = []
    for name, table in tables.items():
        try:
            found.append(_command(name, table))
        except (TypeError, ValueError, KeyError, AttributeError, re.error) as error:
            raise DeclarationError(f"ACCEPTED_COMMANDS: {path}, [{name}]: {_say(error)}") from None
    return found


def _say(error: Exception) -> str:
    text = str(error.args[0]) if error.args else type(error).__name__
    unexpected = re.search(r"unexpected keyword argument '(\w+)'", text)
    return f"there is no member {unexpected[1]!r}; docs/commands.md lists them." if unexpected else f"{text}."


def _command(name: str, table: Mapping[str, Any]) -> Command:
    given = dict(table)
    argv = given.pop("argv", None)
    if not (isinstance(argv, list) and argv and all(isinstance(word, str) and word for word in argv)):
        raise ValueError('argv must be a list of words, such as ["convert", "{picture}", "{out}"]')
    if not shutil.which(argv[0]):
        raise ValueError(f"there is no program {argv[0]!r}; install it or write its whole path")
    if percent := given.pop("percent", None):
        given["percent"] = re.compile(percent)
        if given["percent"].groups != 1:
            raise ValueError("percent must have one group, such as '([0-9.]+)%'")
    if "timeout" in given:
        given["timeout"] = round(duration(str(given["timeout"])))
    given["title"] = given.get("title") or name.replace("_", " ").capitalize()
    given["parameters"] = {key: _parameter(key, value) for key, value in given.get("parameters", {}).items()}
    given["outputs"] = {key: _output(key, value) for key, value in given.get("outputs", {}).items()}
    given["exits"] = {int(key): _exit(value) for key, value in given.get("exits", {}).items()}
    command = Command(name=name, argv=tuple(argv), **given)
    places = set(_PLACE.findall(" ".join(argv)))
    known = command.parameters.keys() | command.outputs.keys()
    for place in sorted(places - known):
        raise ValueError(f"argv names {{{place}}}, which is neither a parameter nor an output")
    for unused in sorted(command.parameters.keys() - places):
        raise ValueError(f"the parameter {unused!r} stands nowhere in argv")
    for both in sorted(command.parameters.keys() & command.outputs.keys()):
        raise ValueError(f"{both!r} is a parameter and an output; rename one")
    return command


def _parameter(name: str, table: Mapping[str, Any]) -> Parameter:
    made = Parameter(**{{"min": "low", "max": "high", "max_length": "longest"}.get(key, key):
                        tuple(value) if isinstance(value, list) else value for key, value in table.items()})
    if made.kind not in KINDS:
        raise ValueError(f"parameter {name!r}: kind is one of {', '.join(KINDS)}")
    if made.kind == "choice" and not made.choices:
        raise ValueError(f"parameter {name!r}: a choice needs choices")
    if made.kind == "flag" and not made.word:
        raise ValueError(f"parameter {name!r}: a flag needs the word that it puts on the command line")
    re.compile(made.pattern)
    if made.default is not None:
        try:
            made.field(leads=False).deserialize(made.default)
        except ValidationError as error:
            raise ValueError(f"parameter {name!r}: its default does not fit: {error.messages[0]}") from None
    return made


def _output(name: str, table: Mapping[str, Any]) -> Output:
    made = Output(**table)
    if made.file != Path(made.file).name or made.file.startswith(("-", ".")):
        raise ValueError(f"output {name!r}: file is a plain name, without a folder")
    return made


def _exit(table: Mapping[str, Any]) -> Exit:
    given = dict(table)
    if "retry" in given:
        given["retry"] = duration(str(given["retry"]))
    return Exit(**given)


def _no_control(text: str) -> None:
    if not text.isprintable():
        raise ValidationError("Control characters and line ends are not allowed.")


def _no_dash(text: str) -> None:
    if text.startswith("-"):
        raise ValidationError("It may not begin with a dash.")
