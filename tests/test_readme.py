"""What the README shows runs, and its commands are commands."""

import importlib
import pathlib
import re
import shlex

import pytest
from absl import flags

ROOT = pathlib.Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_python_blocks_run_one_after_the_other(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", document.read_text(), re.M | re.S)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(compile(block, document.name, "exec"), names)


def commands():
    for document in DOCUMENTS:
        text = document.read_text().replace("\\\n", " ")
        for line in re.findall(r"^ {4}(python -m .*)$", text, re.M):
            yield pytest.param(line, id=" ".join(line.split()[:3]))


@pytest.mark.parametrize("command", commands())
def test_the_commands_have_the_flags_they_use(command):
    _, _, module_name, *arguments = shlex.split(command)
    module = importlib.import_module(module_name)
    if module_name == "serving.client":
        module = importlib.import_module("serving.client_main")
    values = flags.FlagValues()
    saved, original = flags.FLAGS, flags.DEFINE_string
    assert saved is not values
    with pytest.MonkeyPatch.context() as patch:
        # The flags of each script on a registry of its own.
        for name in (
            "DEFINE_string",
            "DEFINE_integer",
            "DEFINE_float",
            "DEFINE_bool",
            "DEFINE_enum",
            "DEFINE_multi_string",
        ):
            define = getattr(flags, name)
            patch.setattr(flags, name, _into(define, values))
        module.define_flags()
    assert flags.DEFINE_string is original
    values([module_name, *arguments])


def _into(define, values):
    def defined(*args, **kwargs):
        return define(*args, flag_values=values, **kwargs)

    return defined


def test_the_links_lead_somewhere():
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
