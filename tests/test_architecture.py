"""The import direction: configs -> tasks -> jaxaug -> t5x -> (jax, flax, ...)."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SEQIO_ADAPTERS = {"jaxaug/feed/source.py", "jaxaug/curriculum/mixture.py"}
DATA_LIBRARIES = {"tensorflow", "tensorflow_text", "tensorflow_datasets", "seqio"}
# What a gin file may import: our packages and the libraries below them.
HOUSE = {"__gin__", "__main__", "t5x", "seqio", "optax", "jaxaug", "tasks"}
# What jaxaug may take from t5x: names that upstream T5X has at the same place.
UPSTREAM_NAMES = {
    "jaxaug/models": {
        "t5x.checkpoints",
        "t5x.models",
        "t5x.partitioning",
        "t5x.train_state",
        "t5x.examples.t5.network",
        "t5x.examples.t5.layers",
    },
    "jaxaug/decode": {
        f"t5x.decoding.{name}"
        for name in (
            "DecodingState",
            "add_beam_dim",
            "cache_gather_beams",
            "cache_map",
            "flat_batch_beam_expand",
            "flatten_beam_dim",
            "unflatten_beam_dim",
        )
    },
}


def imports(path: Path, module_level_only: bool = False) -> Iterator[str]:
    """Dotted names that a file imports; `from a import b` gives `a.b`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if module_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def files(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, folder
    return found


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def top(module: str) -> str:
    return module.partition(".")[0]


@pytest.mark.parametrize("path", files("jaxaug"), ids=name)
def test_jaxaug_imports_downwards(path: Path):
    for module in imports(path):
        assert top(module) not in {"tasks", "configs", "tests"}, module
        if name(path) not in SEQIO_ADAPTERS:
            assert top(module) not in DATA_LIBRARIES, module
        if top(module) == "t5x":
            allowed = UPSTREAM_NAMES.get("/".join(name(path).split("/")[:2]), set())
            assert any(
                module == item or module.startswith(item + ".") for item in allowed
            ), f"{name(path)} imports {module}"


@pytest.mark.parametrize("path", files("runtime/t5x"), ids=name)
def test_runtime_stands_alone(path: Path):
    for module in imports(path):
        assert top(module) not in {"jaxaug", "tasks", "configs", "tests"}, module
    for module in imports(path, module_level_only=True):
        assert top(module) not in DATA_LIBRARIES, module


@pytest.mark.parametrize("path", files("tasks"), ids=name)
def test_tasks_import_no_runtime(path: Path):
    assert not [module for module in imports(path) if top(module) == "t5x"]


@pytest.mark.parametrize("path", sorted((ROOT / "configs").rglob("*.gin")), ids=name)
def test_gin_files_import_only_the_house(path: Path):
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.match(r"(?:from\s+(\S+)\s+import\s+(\S+)|import\s+(\S+))", line)
        if match:
            module = top(match[1] or match[3])
            assert module in HOUSE, f"{name(path)} imports {module}"


def test_light_modules_load_no_data_library():
    modules = [
        name(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for path in files("jaxaug")
        if name(path) not in SEQIO_ADAPTERS
    ]
    script = (
        "import importlib, sys\n"
        f"for module in {modules!r}: importlib.import_module(module)\n"
        f"print(sorted({DATA_LIBRARIES!r} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_importing_the_library_registers_nothing_heavy():
    script = "import jaxaug, sys; print('jax' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
