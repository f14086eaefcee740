"""The file of the operator's commands: what it may say, and how its faults are named."""

from pathlib import Path

import pytest
from marshmallow import Schema, ValidationError

from jobs.types.command_file import read
from jobs.work.job_type import DeclarationError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/commands.toml"


def written(folder, text) -> Path:
    path = folder / "commands.toml"
    path.write_text(text, "utf-8")
    return path


def schema(folder, parameters, argv='["true", "{x}"]'):
    [command] = read(written(folder, f"[a]\nargv = {argv}\n{parameters}"))
    return Schema.from_dict(command.fields())()


def test_the_example_can_be_read():
    assert [command.name for command in read(EXAMPLE)] == ["pack", "check-site"]


@pytest.mark.parametrize(("text", "says"), [
    ("[a", "is no TOML"), ("[a]", "argv must be a list of words"), ('[a]\nargv = "ls -l"', "argv must be a list of words"),
    ('[a]\nargv = ["no-such-program-7"]', "there is no program 'no-such-program-7'"),
    ('[a]\nargv = ["true"]\nshell = true', "there is no member 'shell'"),
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
    assert "[a]" in str(fault.value) or says == "is no TOML"


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DeclarationError, match="ACCEPTED_COMMANDS.*nothing.toml cannot be read"):
        read(tmp_path / "nothing.toml")


@pytest.mark.parametrize(("parameter", "good", "bad"), [
    ('kind = "text"', ["", "a b", "$(id); `id` && x", "é"], ["-rf", "--", "a\nb", "a\0b", "x" * 201, 7]),
    ('kind = "text"\npattern = "[a-c]+"', ["abc"], ["abd", "a\n", ""]), ('kind = "text"\nmax_length = 3', ["abc"], ["abcd"]),
    ('kind = "integer"\nmin = 1\nmax = 9', [1, 9], [0, 10, 1.5, "1", True]), ('kind = "number"\nmin = 0', [0.5, 2], [-1, "x"]),
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
