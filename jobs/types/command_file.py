"""The file of the operator's commands, read and judged at the start: what is wrong is named with file, table and remedy."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marshmallow import ValidationError, fields, validate

from jobs.settings import duration
from jobs.types.operator_file import tables_of
from jobs.work.job_type import OPTIONS, DeclarationError

_ANY, _DURATION = object, (str, int, float)
_COMMAND = {"argv": _ANY, "title": str, "description": str, "percent": str, "timeout": _DURATION, "concurrency": int,
            "max_attempts": int, "env": dict, "parameters": dict, "outputs": dict, "exits": dict, "words": dict}
_PARAMETER = {"kind": str, "title": str, "description": str, "required": bool, "default": _ANY}
_KINDS = {"text": {"pattern": str, "max_length": int}, "integer": {"min": int, "max": int}, "choice": {"choices": list},
          "number": {"min": (int, float), "max": (int, float)}, "flag": {"word": str}, "file": {}}
_OUTPUT = {"file": str, "media_type": str, "optional": bool}
_EXIT = {"title": str, "status": int, "retry": _DURATION}
_WORDS = {str: "a text", int: "a whole number", (int, float): "a number", bool: "true or false", list: "a list",
          dict: "a table", _DURATION: 'a duration such as "10m"'}
_PLACE = re.compile(r"\{(\w+)\}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


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
        """The field of the payload; `leads`: it may stand at the beginning of a word, where a dash would make an option."""
        told = {"title": self.title, "description": self.description, "input": self.kind == "file"}
        options: dict[str, Any] = {"metadata": {name: value for name, value in told.items() if value}}
        if self.kind == "flag":
            return fields.Bool(truthy={True}, falsy={False}, load_default=self.default or False, **options)
        if self.default is not None or not self.required:
            options |= {"load_default": self.default, "allow_none": self.default is None}
        else:
            options["required"] = True
        if self.kind in ("integer", "number"):
            low = 0 if leads and self.low is None else self.low
            kind = fields.Int if self.kind == "integer" else _Number
            return kind(validate=validate.Range(low, self.high), **options | ({"strict": True} if kind is fields.Int else {}))
        if self.kind == "choice":
            return fields.Str(validate=validate.OneOf(self.choices), **options)
        if self.kind == "file":
            return fields.Str(**options)
        rules = [validate.Length(max=self.longest), _no_control] + ([_no_dash] if leads else [])
        rules += [validate.Regexp(f"^(?:{self.pattern})$")] if self.pattern else []
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
    """One table of the file. The program, `argv[0]`, is a whole path."""

    name: str
    argv: tuple[str, ...]
    title: str
    description: str = ""
    percent: re.Pattern | None = None
    timeout: int | None = None
    concurrency: int | None = None
    max_attempts: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    exits: Mapping[int, Exit] = field(default_factory=dict)
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def fields(self) -> dict[str, fields.Field]:
        """The payload's fields."""
        return {name: parameter.field(any(_leads(name, word) for word in self.argv))
                for name, parameter in self.parameters.items()}


def read(path: Path) -> list[Command]:
    """The commands of a file. SettingsError when it cannot be read, DeclarationError when a command cannot work."""
    found = []
    for name, table in tables_of("COMMANDS", path).items():
        try:
            found.append(_command(name, table))
        except (ValueError, re.error) as error:
            raise DeclarationError(f"ACCEPTED_COMMANDS: {path}, [{name}]: {error}.") from None
    return found


def _command(name: str, table: Any) -> Command:
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ValueError("a command's name is lower-case words joined by hyphens, such as check-site")
    given = _checked(table, _COMMAND, "the command")
    env = given.setdefault("env", {})
    if wrong := [key for key, value in env.items() if not isinstance(value, str)]:
        raise ValueError(f"env: {wrong[0]} is a text; put it in quotes")
    argv = given.get("argv")
    if not (isinstance(argv, list) and argv and all(isinstance(word, str) and word for word in argv)):
        raise ValueError('argv must be a list of words, such as ["convert", "{picture}", "{out}"]')
    given["argv"] = (_program(argv[0], env), *argv[1:])
    if "percent" in given:
        given["percent"] = re.compile(given["percent"])
        if given["percent"].groups != 1:
            raise ValueError("percent must have one group, such as '([0-9.]+)%'")
    if "timeout" in given:
        given["timeout"] = round(duration(str(given["timeout"])))
    for limit in ("timeout", "concurrency", "max_attempts"):
        if given.get(limit, 1) < 1:
            raise ValueError(f"{limit} is at least 1")
    given["title"] = given.get("title") or name.replace("-", " ").capitalize()
    given["parameters"] = {key: _parameter(key, value) for key, value in given.get("parameters", {}).items()}
    given["outputs"] = {key: _output(key, value) for key, value in given.get("outputs", {}).items()}
    given["exits"] = dict(_exit(key, value) for key, value in given.get("exits", {}).items())
    command = Command(name=name, **given)
    places = set(_PLACE.findall(" ".join(argv)))
    known = command.parameters.keys() | command.outputs.keys()
    for place in sorted(places - known):
        raise ValueError(f"argv names {{{place}}}, which is neither a parameter nor an output")
    for unused in sorted(command.parameters.keys() - places):
        raise ValueError(f"the parameter {unused!r} stands nowhere in argv")
    for both in sorted(command.parameters.keys() & command.outputs.keys()):
        raise ValueError(f"{both!r} is a parameter and an output; rename one")
    return command


def _program(name: str, env: Mapping[str, str]) -> str:
    """Its whole path: the command runs in a folder of its own, where another one would lead elsewhere."""
    if "/" in name and not name.startswith("/"):
        raise ValueError(f"write the whole path of {name!r}, or a program on the PATH")
    found = shutil.which(name, path=env.get("PATH"))
    if not found:
        raise ValueError(f"there is no program {name!r}; install it or write its whole path")
    return str(Path(found).absolute())


def _parameter(name: str, table: Any) -> Parameter:
    what = f"parameter {name!r}"
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) or name == "job" or name in OPTIONS:
        raise ValueError(f"{what}: a name is letters, digits and _, and neither job nor {' nor '.join(OPTIONS)}; rename it")
    kind = table.get("kind") if isinstance(table, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"{what}: kind is one of {', '.join(_KINDS)}")
    given = {"title": (name[0].upper() + name[1:]).replace("_", " ")} | _checked(table, _PARAMETER | _KINDS[kind], what)
    if not all(isinstance(choice, str) for choice in given.get("choices", ())):
        raise ValueError(f"{what}: choices is a list of texts; put each in quotes")
    if kind == "choice" and not given.get("choices"):
        raise ValueError(f"{what}: a choice needs choices")
    if kind == "flag" and not given.get("word"):
        raise ValueError(f"{what}: a flag needs the word that it puts on the command line")
    names = {"min": "low", "max": "high", "max_length": "longest"}
    made = Parameter(**{names.get(key, key): tuple(value) if key == "choices" else value for key, value in given.items()})
    try:
        re.compile(made.pattern)
    except re.error as error:
        raise ValueError(f"{what}: its pattern is none: {error}") from None
    if made.default is not None:
        try:
            made.field(leads=False).deserialize(made.default)
        except ValidationError as error:
            raise ValueError(f"{what}: its default does not fit: {error.messages[0].rstrip('.')}") from None
    return made


def _output(name: str, table: Any) -> Output:
    made = Output(**{"file": ""} | _checked(table, _OUTPUT, f"output {name!r}"))
    if not made.file or made.file != Path(made.file).name or made.file.startswith(("-", ".")):
        raise ValueError(f"output {name!r}: file is a plain name, without a folder")
    return made


def _exit(code: str, table: Any) -> tuple[int, Exit]:
    if not code.isdecimal() or not 1 <= int(code) <= 255:
        raise ValueError(f"exits: {code!r} is no exit status; those of failures are 1 to 255")
    given = _checked(table, _EXIT, f"exit {code}")
    if not 400 <= given.get("status", 422) <= 599:
        raise ValueError(f"exit {code}: status is between 400 and 599")
    if "retry" in given:
        given["retry"] = duration(str(given["retry"]))
    return int(code), Exit(**given)


def _checked(table: Any, members: Mapping[str, Any], what: str) -> dict[str, Any]:
    """A copy of the table, in which there is nothing but these members, each of its type."""
    if not isinstance(table, dict):
        raise ValueError(f"{what} is a table; docs/commands.md has examples")
    for name, value in table.items():
        if name not in members:
            raise ValueError(f"{what}: there is no member {name!r}; there are {', '.join(members)}")
        if not isinstance(value, members[name]) or isinstance(value, bool) and members[name] not in (bool, _ANY):
            raise ValueError(f"{what}: {name} is {_WORDS[members[name]]}")
    return dict(table)


def _leads(name: str, word: str) -> bool:
    """Whether the parameter may stand at the beginning of the word; what is before it may be empty."""
    before, found, _ = word.partition(f"{{{name}}}")
    return bool(found) and not _PLACE.sub("", before)


class _Number(fields.Float):
    """A JSON number, no text that looks like one."""

    def _validated(self, value: Any) -> float:
        if isinstance(value, str):
            raise self.make_error("invalid", input=value)
        return super()._validated(value)


def _no_control(text: str) -> None:
    if _CONTROL.search(text):
        raise ValidationError("Control characters and line ends are not allowed.")


def _no_dash(text: str) -> None:
    if text.startswith("-"):
        raise ValidationError("It may not begin with a dash.")
