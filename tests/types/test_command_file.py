"""The file of the operator's commands: what it may say, and how its faults are named."""

from pathlib import Path

import pytest
from marshmallow import Schema, ValidationError

from jobs import settings
from jobs.settings import SettingsError
from jobs.types.command import declare
from jobs.types.command_file import read
from jobs.web.openapi import json_schema
from jobs.work.job_type import DeclarationError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/commands.toml"


def written(folder, text) -> Path:
    path = folder / "commands.toml"
    path.write_text(text, "utf-8")
    return path


def schema(folder, parameters, argv='["true", "{x}"]'):
    [command] = read(written(folder, f"[a]\nargv = {argv}\n{parameters}"))
    return Schema.from_dict(command.fields())()


def test_a_command_brings_its_words(tmp_path):
    path = written(tmp_path, '[a]\nargv = ["true"]\n[a.words.zh-Hans]\nA = "甲"')
    [declared] = declare(settings.load({}, commands=path))
    assert declared.words == {"zh-Hans": {"A": "甲"}}


def test_the_example_can_be_read():
    assert [command.name for command in read(EXAMPLE)] == ["pack", "check-site"]


@pytest.mark.parametrize(("text", "says"), [
    ("[a]", "argv must be a list of words"), ('[a]\nargv = "ls -l"', "argv must be a list of words"),
    ('[a]\nargv = ["no-such-program-7"]', "there is no program 'no-such-program-7'"),
    ('[a]\nargv = ["true"]\nshell = true', "the command: there is no member 'shell'; there are argv, title"),
    ('[a]\nargv = ["./here"]', "write the whole path of './here'"), ("a = 3", "the command is a table"),
    ('[a]\nargv = ["true"]\ntitle = 5', "title is a text"), ('[a]\nargv = ["true"]\nparameters = []', "parameters is a table"),
    ('[a]\nargv = ["true"]\nenv = {N = 5}', "env: N is a text; put it in quotes"),
    ('[a]\nargv = ["true"]\nconcurrency = 0', "concurrency is at least 1"),
    ('[a]\nargv = ["true"]\nmax_attempts = true', "max_attempts is a whole number"),
    ('[a]\nargv = ["true"]\n[a.exits]\nx = {title = "t"}', "exits: 'x' is no exit status"),
    ('[a]\nargv = ["true"]\n[a.exits]\n0 = {title = "t"}', "exits: '0' is no exit status"),
    ('[a]\nargv = ["true"]\n[a.exits]\n3 = {status = 200}', "exit 3: status is between 400 and 599"),
    ('[a]\nargv = ["true", "{x}"]\n[a.parameters.x]\ntitle = "t"', "parameter 'x': kind is one of text"),
    ('[a]\nargv = ["true", "{x}"]\n[a.parameters.x]\nkind = ["text"]', "parameter 'x': kind is one of text"),
    ('[a]\nargv = ["true", "{x}"]\n[a.parameters.x]\nkind = "text"\nmin = 3', "there is no member 'min'"),
    ('[a]\nargv = ["true", "{x}"]\n[a.parameters.x]\nkind = "integer"\nmin = "1"', "min is a whole number"),
    ('[a]\nargv = ["true", "{x}"]\n[a.parameters.x]\nkind = "text"\nrequired = "no"', "required is true or false"),
    ('[a]\nargv = ["true", "{x}"]\n[a.parameters.x]\nkind = "text"\npattern = "("', "parameter 'x': its pattern is none"),
    ('[a]\nargv = ["true", "{x}"]\n[a.parameters.x]\nkind = "choice"\nchoices = ["a", 3]', "choices is a list of texts"),
    ('[a]\nargv = ["true", "{priority}"]\n[a.parameters.priority]\nkind = "text"', "parameter 'priority': a name is"),
    ('[a]\nargv = ["true", "{x}"]', "neither a parameter nor an output"),
    ('[a]\nargv = ["true"]\n[a.parameters.x]\nkind = "text"', "stands nowhere in argv"),
    ('[a]\nargv = ["true", "{x}"]\n[a.parameters.x]\nkind = "word"', "kind is one of text, integer"),
    ('[a]\nargv = ["true", "{x}"]\n[a.parameters.x]\nkind = "choice"', "a choice needs choices"),
    ('[a]\nargv = ["true", "{x}"]\n[a.parameters.x]\nkind = "flag"', "a flag needs the word"),
    ('[a]\nargv = ["true", "{x}"]\n[a.parameters.x]\nkind = "integer"\nmax = 3\ndefault = 4', "its default does not fit"),
    ('[a]\nargv = ["true"]\npercent = "%"', "percent must have one group"), ('[a]\nargv = ["true"]\npercent = "("', "unterminated"),
    ('[a]\nargv = ["true"]\ntimeout = "soon"', "write a duration"),
    ('[a]\nargv = ["true", "{o}"]\n[a.outputs.o]\nfile = "../x"', "file is a plain name"),
    ('[a]\nargv = ["true", "{x}"]\n[a.parameters.x]\nkind = "text"\n[a.outputs.x]\nfile = "x"', "is a parameter and an output")])
def test_a_fault_names_file_table_and_remedy(tmp_path, text, says):
    path = written(tmp_path, text)
    with pytest.raises(DeclarationError) as fault:
        read(path)
    assert says in str(fault.value) and str(path) in str(fault.value)
    assert "[a]" in str(fault.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(SettingsError, match="ACCEPTED_COMMANDS.*nothing.toml cannot be read"):
        read(tmp_path / "nothing.toml")
    with pytest.raises(SettingsError, match="ACCEPTED_COMMANDS.*commands.toml is no TOML"):
        read(written(tmp_path, "[a"))


def test_the_name_of_a_command_is_one_that_a_job_type_can_have(tmp_path):
    with pytest.raises(DeclarationError, match=r"\[Pack_it\]: a command's name is lower-case words joined by hyphens"):
        read(written(tmp_path, '[Pack_it]\nargv = ["true"]'))


def test_the_program_is_looked_up_at_the_start_by_the_path_that_the_command_declares(tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    [command] = read(written(tmp_path, f'[a]\nargv = ["tool"]\nenv = {{ PATH = "{tmp_path}" }}'))
    assert command.argv == (str(tmp_path / "tool"),)


@pytest.mark.parametrize(("parameter", "good", "bad"), [
    ('kind = "text"', ["", "a b", "$(id); `id` && x", "é", "全\u3000角\u00a0"], ["-rf", "--", "a\nb", "a\0b", "a\u2028b", "x" * 201, 7]),
    ('kind = "text"\npattern = "[a-c]+"', ["abc"], ["abd", "a\n", ""]), ('kind = "text"\nmax_length = 3', ["abc"], ["abcd"]),
    ('kind = "integer"\nmin = 1\nmax = 9', [1, 9], [0, 10, 1.5, "1", True]), ('kind = "number"\nmin = 0', [0.5, 2], [-1, "x", "2", True]),
    ('kind = "integer"', [0, 7], [-5]), ('kind = "number"', [0.5], [-0.5]), ('kind = "integer"\nmin = -9', [-9, 9], [-10]),

    ('kind = "flag"\nword = "-v"', [True, False], ["yes", 2]), ('kind = "choice"\nchoices = ["-a", "b"]', ["-a", "b"], ["-b", ""])])
def test_parameters_take_what_they_declare(tmp_path, parameter, good, bad):
    found = schema(tmp_path, f"[a.parameters.x]\n{parameter}")
    for value in good:
        assert found.load({"x": value}) == {"x": value}
    for value in bad:
        with pytest.raises(ValidationError):
            found.load({"x": value})


def test_a_dash_inside_a_word_makes_no_option(tmp_path):
    assert schema(tmp_path, '[a.parameters.x]\nkind = "text"', '["true", "--name={x}"]').load({"x": "-rf"}) == {"x": "-rf"}


@pytest.mark.parametrize(("before", "bad"), [("", "-rf"), ("{y}", "-rf"), ("{y}{z}", "-rf")])
def test_what_may_be_empty_before_it_hides_no_option(tmp_path, before, bad):
    """The word `{y}{x}` begins with x where y is an empty text."""
    other = "".join(f'[a.parameters.{name}]\nkind = "text"\n' for name in "yz" if name in before)
    found = schema(tmp_path, f'[a.parameters.x]\nkind = "text"\n{other}', f'["true", "{before}{{x}}"]')
    with pytest.raises(ValidationError):
        found.load({"x": bad} | {name: "" for name in "yz" if name in before})


def test_a_flag_may_be_on_by_default(tmp_path):
    assert schema(tmp_path, '[a.parameters.x]\nkind = "flag"\nword = "-v"\ndefault = true').load({}) == {"x": True}


def test_the_pattern_is_one_that_browsers_and_generators_understand(tmp_path):
    found = schema(tmp_path, '[a.parameters.x]\nkind = "text"\npattern = "a|b"')
    assert json_schema(found)["properties"]["x"]["pattern"] == "^(?:a|b)$"
