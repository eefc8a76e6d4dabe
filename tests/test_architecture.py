"""The import direction: configs, papers -> tasks -> jaxaug -> t5x -> (jax, flax, ...).

Inside each package there are floors: a room imports rooms below it and nothing beside or
above it. `docs/architecture.md` shows them.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gin_files import gin_files

ROOT = Path(__file__).resolve().parent.parent
SEQIO_ADAPTERS = {
    "jaxaug/feed/source.py",
    "jaxaug/curriculum/mixture.py",
    "jaxaug/curriculum/scheduled.py",
}
DATA_LIBRARIES = {"tensorflow", "tensorflow_text", "tensorflow_datasets", "seqio"}
# The packages of the repository, and the folders that hold some of them.
FOLDERS = (
    "jaxaug",
    "tasks",
    "runtime/jaxaug_base",
    "runtime/t5x",
    "papers/jaxaug_papers",
)
HOMES = re.compile("^(runtime|papers)/")
# From the ground up; rooms on one floor do not know each other.
FLOORS = {
    "jaxaug": (
        "core",
        "data",
        "formats metrics decode",
        "feed schemas",
        "models",
        "paraphrase",
        "augment",
        "curriculum",
        "launch track look",
        "serve",
        "doctor cli api",
        "__main__",
    ),
    "jaxaug.models": (
        "layers arguments endpoint",
        "weights",
        "bart_config bert_config causal deberta_config llama_config reading_heads",
        "bart_blocks",
        "bart bert deberta gpt2 llama t5 t5_stacks t5_weights",
        "lora",
        "named",
        "tokenizers initial",
        "text",
        "scorers convert",
        "finetune",
    ),
    "jaxaug.augment": (
        "descriptions arguments",
        "language decisions",
        "judge grammar",
        "spread",
        "tree",
        "config result",
        "schemes selection output context",
        "plan plain",
        "stages preview",
        "run review explaining rewording",
    ),
    "jaxaug_papers": ("shared minisgd multiwoz", "pcc dips tree mini"),
    "t5x": (
        "errors paths metrics binary_search on_cpu on_gpu",
        "checks",
        "losses output_product distributed variables state_utils optim search peers",
        (
            "adafactor optimizers train_state decoding digests partition logs "
            "examples chunked_loss"
        ),
        "partitioning model",
        "models checkpoint feed",
        "checkpoints checkpoint_importer inference",
        "training",
        "trainer utils start",
        "gin_utils",
        "eval infer train",
        "main",
        "configs",
    ),
}
# Packages that jaxaug, tasks and the runtime do not import.
ABOVE = {"jaxaug_papers", "configs", "tests"}
# What a gin file may import: our packages and the libraries below them.
HOUSE = {"__gin__", "__main__", "t5x", "seqio", "optax", "jaxaug", "tasks"}
# What jaxaug may take from t5x: names that upstream T5X has at the same place.
UPSTREAM_NAMES = {
    "jaxaug/models": {
        "t5x.checkpoints",
        "t5x.losses",
        "t5x.metrics",
        "t5x.models",
        "t5x.partitioning",
        "t5x.train_state",
        "t5x.utils",
        "t5x.examples.scalable_t5.network",
        "t5x.examples.t5.network",
        "t5x.examples.t5.layers",
    },
    "jaxaug/decode": {
        "t5x.binary_search.float32_bsearch",
        *(
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
        ),
    },
}
# And what it does without where upstream's T5X is, in one file of its own.
OPTIONAL_NAMES = {
    "jaxaug/decode/beam_cache.py": "t5x.decoding.share_history",
    "jaxaug/models/layers/beam_history.py": "t5x.examples.t5.beam_history",
    "jaxaug/models/layers/on_cpu.py": "t5x.on_cpu",
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


def module_name(path: Path) -> str:
    """Dotted name of a file of one of our packages."""
    dotted = HOMES.sub("", name(path)).removesuffix(".py").replace("/", ".")
    return dotted.removesuffix(".__init__")


def arrows() -> dict[str, set[str]]:
    """Module -> the modules of the house that it imports, wherever in its file."""
    paths = {module_name(path): path for folder in FOLDERS for path in files(folder)}
    found = {}
    for module, path in paths.items():
        # `from a import b` is an arrow to a.b if that is a module, else to a.
        targets = {
            item if item in paths else item.rpartition(".")[0] for item in imports(path)
        }
        found[module] = {target for target in targets if target in paths} - {module}
    return found


def functions(folder: str) -> Iterator[tuple[str, str]]:
    """(place, code without its docstring and comments) of functions worth sharing."""
    for path in files(folder):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                code = "\n".join(map(ast.unparse, body))
                if len(code) > 120:
                    yield f"{name(path)}:{node.name}", code


def top(module: str) -> str:
    return module.partition(".")[0]


def run_python(script: str) -> str:
    """What a script prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("package", FLOORS)
def test_rooms_import_the_floors_below(package: str):
    floor_of = {
        room: floor
        for floor, rooms in enumerate(FLOORS[package])
        for room in rooms.split()
    }
    back = []
    for module, targets in arrows().items():
        room = module.removeprefix(f"{package}.").partition(".")[0]
        if not module.startswith(f"{package}."):
            continue
        assert room in floor_of, f"{module}: say on which floor of {package} it is"
        for target in targets:
            other = target.removeprefix(f"{package}.").partition(".")[0]
            inside = target.startswith(f"{package}.") and other != room
            if inside and floor_of[other] >= floor_of[room]:
                back.append(f"{module} -> {target}")
    assert back == []


def test_the_page_shows_the_floors():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    tables = re.findall(r"((?:\| \d+ \|.*\n)+)", page)
    shown = [
        tuple(line.split("|")[2].strip() for line in table.splitlines())
        for table in tables
    ]
    assert shown == list(FLOORS.values())


def test_no_circle():
    """Takes away modules that import nothing that is left; a circle stays."""
    left = arrows()
    while free := {module for module, targets in left.items() if not targets}:
        left = {m: targets - free for m, targets in left.items() if m not in free}
    assert left == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_helper_is_written_twice(folder: str):
    places: dict[str, list[str]] = {}
    for place, code in functions(folder):
        places.setdefault(code, []).append(place)
    assert [found for found in places.values() if len(found) > 1] == []


@pytest.mark.parametrize("path", files("jaxaug"), ids=name)
def test_jaxaug_imports_downwards(path: Path):
    for module in imports(path):
        assert top(module) not in ABOVE | {"tasks"}, module
        if name(path) not in SEQIO_ADAPTERS:
            assert top(module) not in DATA_LIBRARIES, module
        if top(module) == "t5x":
            allowed = UPSTREAM_NAMES.get("/".join(name(path).split("/")[:2]), set())
            allowed = allowed | {OPTIONAL_NAMES.get(name(path), "-")}
            assert any(
                module == item or module.startswith(item + ".") for item in allowed
            ), f"{name(path)} imports {module}"


@pytest.mark.parametrize("path", OPTIONAL_NAMES)
def test_jaxaug_does_without_optional_names(path: str):
    parent, _, leaf = OPTIONAL_NAMES[path].rpartition(".")
    script = (
        "import importlib, sys\n"
        f"vars(importlib.import_module({parent!r})).pop({leaf!r}, None)\n"
        f"sys.modules[{OPTIONAL_NAMES[path]!r}] = None\n"
        f"module = importlib.import_module({module_name(ROOT / path)!r})\n"
        "print(module.is_there())"
    )
    assert run_python(script) == "False"


@pytest.mark.parametrize("path", files("runtime"), ids=name)
def test_runtime_stands_alone(path: Path):
    for module in imports(path):
        assert top(module) not in ABOVE | {"jaxaug", "tasks"}, module
    for module in imports(path, module_level_only=True):
        assert top(module) not in DATA_LIBRARIES, module


@pytest.mark.parametrize("path", files("runtime/jaxaug_base"), ids=name)
def test_what_is_shared_knows_neither_side(path: Path):
    assert not [
        m for m in imports(path) if top(m) in ABOVE | {"jaxaug", "tasks", "t5x"}
    ]


@pytest.mark.parametrize("path", files("tasks"), ids=name)
def test_tasks_import_no_runtime(path: Path):
    assert not [m for m in imports(path) if top(m) in ABOVE | {"t5x"}]


@pytest.mark.parametrize("path", gin_files().values(), ids=name)
def test_gin_files_import_only_the_house(path: Path):
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.match(r"(?:from\s+(\S+)\s+import\s+(\S+)|import\s+(\S+))", line)
        if match:
            module = top(match[1] or match[3])
            house = HOUSE | ({"jaxaug_papers"} if "papers" in path.parts else set())
            assert module in house, f"{name(path)} imports {module}"


def test_light_modules_load_no_data_library():
    modules = [
        name(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for path in files("jaxaug")
        if name(path) not in SEQIO_ADAPTERS
    ]
    # The runtime writes TensorBoard files through a package that would import PyTorch.
    modules += ["t5x.train", "t5x.eval", "t5x.infer"]
    script = (
        "import importlib, sys\n"
        f"for module in {modules!r}: importlib.import_module(module)\n"
        f"print(sorted({DATA_LIBRARIES | {'torch'}!r} & set(sys.modules)))\n"
    )
    assert run_python(script) == "[]"


def test_importing_the_library_registers_nothing_heavy():
    script = "import jaxaug, sys; print('jax' in sys.modules)"
    assert run_python(script) == "False"
