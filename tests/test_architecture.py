"""Who may import whom."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent

# In the order in which data flows: each may import those before it.
ORDER = [
    "checks",
    "files",
    "backend",
    "evaluation",
    "decoding",
    "text",
    "data",
    "layers",
    "models",
    "training",
    "_fonts",
    "plots",
    "model_dir",
    "translation",
    "translator",
    "export",
]
MAY_IMPORT_TENSORFLOW = {
    "text",
    "data",
    "translator",
    "export",
    "training/distribution.py",
    "training/workers.py",
    # Themselves imported where TensorFlow is the backend.
    "backend/tensorflow_loss.py",
    "backend/tensorflow_scan.py",
}
# Only within the functions that run on that backend.
MAY_IMPORT_IT_WITHIN = {"backend/__init__.py", "training/optimizers.py"}


def part_of(path: pathlib.Path) -> str:
    return path.relative_to(ROOT / "keras_attn").parts[0].removesuffix(".py")


def imports(path: pathlib.Path, top_level_only: bool = False):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


SOURCES = sorted((ROOT / "keras_attn").rglob("*.py"))
MODULES = [path for path in SOURCES if part_of(path) != "__init__"]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_imports_upward(path):
    here = ORDER.index(part_of(path))
    for name in imports(path, top_level_only=True):
        parts = name.split(".")
        assert parts[0] not in ("trainers", "serving", "tests", "benchmarks")
        if parts[0] == "keras_attn" and len(parts) > 1:
            assert ORDER.index(parts[1]) <= here, f"{path} imports {name}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_tensorflow_is_imported_where_it_may_be(path):
    found = {name.split(".")[0] for name in imports(path)} & {
        "tensorflow",
        "tensorflow_text",
    }
    here = path.relative_to(ROOT / "keras_attn").as_posix()
    if here in MAY_IMPORT_IT_WITHIN:
        found = {name.split(".")[0] for name in imports(path, True)} & found
    assert not found or {part_of(path), here} & MAY_IMPORT_TENSORFLOW


def test_the_layers_pull_in_nothing_heavy():
    code = (
        "import sys, keras; before = set(sys.modules);"  # Keras brings matplotlib
        "import keras_attn.layers, keras_attn.models;"
        "print([m for m in ('tensorflow_text', 'matplotlib', 'sacrebleu', 'grpc',"
        "'sentencepiece') if m in set(sys.modules) - before])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stderr
