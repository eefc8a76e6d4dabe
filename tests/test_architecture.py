"""The import direction: configs, papers -> tasks -> jaxaug -> t5x -> (jax, flax, ...).

Inside each package there are floors: a room imports only rooms below it.
`docs/architecture.md` shows them.
"""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.gin_files import gin_files
from tests.support.programs import python_says

ROOT = Path(__file__).resolve().parent.parent
DATA_LIBRARIES = {"tensorflow", "tensorflow_text", "tensorflow_datasets", "seqio"}
# The packages of the repository, and the folders of some of them.
FOLDERS = (
    "jaxaug", "tasks", "runtime/jaxaug_base", "runtime/t5x", "papers/jaxaug_papers",
)  # fmt: skip
HOMES = re.compile("^(runtime|papers)/")
# From the ground up; rooms on one floor do not import each other.
FLOORS = {
    "jaxaug": (
        "core",
        "data",
        "formats metrics decode",
        "feed",
        "models",
        "paraphrase",
        "augment",
        "curriculum",
        "launch track look",
        "tools",
        "serve",
        "doctor cli api",
        "__main__",
    ),
    "jaxaug.models": (
        "layers arguments endpoint engine",
        "weights programs",
        "bert causal",
        "bart deberta gpt2 llama t5 t5_weights",
        "lora",
        "named",
        "tokenizers initial",
        "text",
        "scorers convert",
        "finetune consistency",
    ),
    "jaxaug.augment": (
        "descriptions arguments",
        "language decisions",
        "judge grammar",
        "config",
        "schemes selection",
        "output plain",
        "plan",
        "preview review explaining rewording",
        "run",
    ),
    "jaxaug_papers": ("ab shared minisgd multiwoz", "pcc dips tree mini multiwoz24"),
    "t5x": (
        "errors metrics binary_search on_cpu on_gpu",
        "checks state_utils",
        "output_product distributed optimizers search peers",
        "adafactor losses train_state decoding digests partition logs examples",
        "partitioning model",
        "models checkpoint feed",
        "checkpoints inference",
        "training",
        "trainer utils start",
        "gin_utils",
        "eval infer train",
        "main",
        "configs",
    ),
}
# Packages that jaxaug, tasks, and the runtime do not import.
ABOVE = {"jaxaug_papers", "configs", "tests"}
# Possible imports of a gin file: our packages and the libraries below them.
HOUSE = {"__gin__", "__main__", "t5x", "seqio", "optax", "jaxaug", "tasks"}


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Returns the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports(path: Path, module_level_only: bool = False) -> list[str]:
    """Returns the dotted names that a file imports; `from a import b` gives `a.b`."""
    tree = parsed(path)
    found = []
    for node in tree.body if module_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def importing(folder: str, packages: set[str], **options: bool) -> list[str]:
    """Returns each import of one of the packages in a folder, with its file."""
    return [
        f"{name(path)} imports {module}"
        for path in files(folder)
        for module in imports(path, **options)
        if top(module) in packages
    ]


def files(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, folder
    return found


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """Returns the dotted name of a file of one of our packages."""
    dotted = HOMES.sub("", name(path)).removesuffix(".py").replace("/", ".")
    return dotted.removesuffix(".__init__")


@functools.cache
def arrows() -> dict[str, set[str]]:
    """Returns module -> modules of the repository that it imports anywhere."""
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
    """Yields (place, code without docstring and comments) of longer functions."""
    for path in files(folder):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                code = "\n".join(map(ast.unparse, body))
                if len(code) > 120:
                    yield f"{name(path)}:{node.name}", code


def top(module: str) -> str:
    return module.partition(".")[0]


def test_rooms_import_the_floors_below():
    back = []
    for package, floors in FLOORS.items():
        floor_of = {room: n for n, rooms in enumerate(floors) for room in rooms.split()}
        inside = [m for m in arrows() if m.startswith(f"{package}.")]
        room_of = {m: m.removeprefix(f"{package}.").partition(".")[0] for m in inside}
        for module, room in room_of.items():
            assert room in floor_of, f"{module}: say on which floor of {package} it is"
            back += [
                f"{module} -> {target}"
                for target in arrows()[module] & room_of.keys()
                if room_of[target] != room
                and floor_of[room_of[target]] >= floor_of[room]
            ]
    assert back == []


def test_the_page_shows_the_floors():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    tables = re.findall(r"((?:\| \d+ \|.*\n)+)", page)
    shown = [
        tuple(line.split("|")[2].strip() for line in table.splitlines())
        for table in tables
    ]
    assert shown == list(FLOORS.values())


def test_no_import_cycle():
    """Repeatedly removes modules without remaining imports; a cycle would remain."""
    left = arrows()
    while free := {module for module, targets in left.items() if not targets}:
        left = {m: targets - free for m, targets in left.items() if m not in free}
    assert left == {}


def test_no_helper_is_written_twice():
    for folder in FOLDERS:
        places: dict[str, list[str]] = {}
        for place, code in functions(folder):
            places.setdefault(code, []).append(place)
        assert [found for found in places.values() if len(found) > 1] == []


def test_jaxaug_imports_downwards():
    assert importing("jaxaug", ABOVE | {"tasks"}) == []
    assert importing("jaxaug", DATA_LIBRARIES) == []


def test_runtime_stands_alone():
    assert importing("runtime", ABOVE | {"jaxaug", "tasks"}) == []
    assert importing("runtime", DATA_LIBRARIES, module_level_only=True) == []


def test_jaxaug_base_imports_neither_side():
    assert importing("runtime/jaxaug_base", {"t5x"}) == []


def test_one_module_imports_clu():
    lines = [line for folder in FOLDERS for line in importing(folder, {"clu"})]
    assert {line.split()[0] for line in lines} == {"runtime/jaxaug_base/clu_names.py"}


def test_tasks_import_downwards():
    assert importing("tasks", ABOVE) == []


def test_gin_files_import_only_the_house():
    start = re.compile(r"^(?:from\s+(\S+)\s+import\s+\S+|import\s+(\S+))", re.MULTILINE)
    for path in gin_files().values():
        house = HOUSE | ({"jaxaug_papers"} if "papers" in path.parts else set())
        found = {top(a or b) for a, b in start.findall(path.read_text("utf-8"))}
        assert found <= house, f"{name(path)} imports {found - house}"


def test_light_modules_load_no_data_library():
    modules = [
        name(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for path in files("jaxaug")
    ]
    modules.remove("jaxaug.tools.inspect_tasks")  # Needs an extra; Inspect loads it.
    # The runtime writes TensorBoard files through a package that would import PyTorch.
    modules += ["t5x.train", "t5x.eval", "t5x.infer"]
    script = (
        "import importlib, sys\n"
        f"for module in {modules!r}: importlib.import_module(module)\n"
        f"print(sorted({DATA_LIBRARIES | {'torch'}!r} & set(sys.modules)))\n"
    )
    assert python_says(script) == "[]"
