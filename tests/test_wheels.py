"""The wheels of all distributions, and their use without a checkout."""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from jaxaug.core import bundled, config_file
from jaxaug.models.text import run_config
from tests.metrics.test_statistics import model_folder
from tests.support.programs import ran

ROOT = Path(__file__).resolve().parent.parent
BUILD = "from setuptools import build_meta; build_meta.build_wheel({!r})"
# Files of a user: a `tasks` module, and an experiment based on ours.
TASKS = "def rate(value=1):\n    return value\n"
MINE = """from __gin__ import dynamic_registration
import tasks
tasks.rate.value = 5
MODEL_DIR = 'runs/mine'
"""
# Verbs in an environment where nothing of an extra, and no scipy, can be imported.
LIGHT = """
import json, sys
from jaxaug.core.installed import EXTRAS
class Base:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*EXTRAS, "scipy"}:
            return self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = map(Base, sys.meta_path)
from jaxaug import cli
for words in json.loads(sys.argv[1]):
    print("$", *words, flush=True)
    print("=", cli.main(words), flush=True)
"""
VERBS = """
init demo
data check demo
data describe
data show
data variants --split test --variant v1 --out v1
format d3st --split dev --out dev.jsonl
evaluate sgd --split test --data_dir demo --predictions demo/test --output score.json
report run --power
errors predicted
tasks
schema import tools.json --out schema.json
schema export schema.json --to openapi --out api.yaml
augment --data_dir demo --config configs/augment/grammar.py --out grammar
augment --data_dir demo --config configs/augment/eda.py --out eda
augment review grammar
augment explain train/0/slot/0 --out grammar
augment text --scheme eda --in texts.txt --out eda.txt
models list
completion bash
"""
TOOLS = [
    {"name": "weather", "description": "weather of a city",
     "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}}},
]  # fmt: skip
# Commands of three new users, each with an excerpt of its output. The annotation is
# predicted under every wording.
RESEARCH = """
jaxaug report plain tree --resamples 200 --csv runs.csv # holds for these seeds alone: tree > plain
jaxaug report plain tree --resamples 200 --power # power: differences in mean v1-5
mkdir made predicted
for v in v1 v2 v3 v4 v5; do
  jaxaug data variants --split test --variant $v --out made && mv made/$v/test predicted/$v
done # wrote 4 dialogue files and a schema to made/v5/test
cp -r "$HOME"/.cache/jaxaug/minisgd*/test predicted/original
jaxaug evaluate sgdx --split test --predictions predicted --output x.json # 975 frames
"""
OWN_API = """
jaxaug schema import tools.json --out schema.json # mcp: 1 service, 1 intent, 1 slot
jaxaug init mine # wrote 2 services and 20 dialogues to mine
jaxaug data check mine # no errors
jaxaug augment --config configs/augment/grammar.py --data_dir mine --out variants # wrote variants/v1..v5
jaxaug augment review variants # wrote variants/review.html: 15 texts
echo '{"messages": [{"role": "user", "content": "Oslo?"}], "calls": []}' > cases.jsonl
jaxaug sensitivity --schema tools.json --in cases.jsonl --model openai:x --endpoint http://localhost:1/v1 --dry_run # expected: 14 requests
"""
PLAIN_TEXT = """
jaxaug augment text --scheme eda --in texts.csv --out eda.csv # wrote eda.csv
"""
MODELS = """
jaxaug paraphrase --in texts.csv --sampler greedy --model mini --out p # 2 inputs, 2 outputs
jaxaug augment text --scheme paraphrase --sampler top_k_top_p --model mini --in texts.csv --out m.csv # wrote m.csv
"""
HEAVY = {
    "predict --run run --in x.txt": "jax",
    "serve run": "serve",
    "robustness run --out r": "jax",
    "paraphrase --in texts.txt --sampler greedy --model mini --out p": "jax",
    "data cache --task d3st_sgd --out c": "jax",
    "report run --html r.html": "report",
}


def files_of(folder: str) -> set[str]:
    """Yields the files of a folder of the repository, without Python's caches."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the wheels of all distributions."""
    source = tmp_path_factory.mktemp("source")
    for name in ("jaxaug", "tasks", "configs", "runtime", "papers"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    for folder in (source, source / "runtime", source / "papers"):
        command = [sys.executable, "-c", BUILD.format(str(source))]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return source


@pytest.fixture(scope="module")
def site(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with all wheels unpacked, as pip would."""
    out = tmp_path_factory.mktemp("site")
    for wheel in wheels.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(out)
    return out


@pytest.mark.slow
def test_contents_of_the_wheels(site: Path):
    assert {path.name.partition("-")[0] for path in site.iterdir()} == {
        "jaxaug", "jaxaug_base", "jaxaug_papers", "jaxaug_t5x", "t5x",
    }  # fmt: skip
    for wheel, own in (("jaxaug", "jaxaug"), ("jaxaug_t5x", "t5x")):
        (names,) = site.glob(f"{wheel}-*.dist-info/top_level.txt")
        assert sorted(names.read_text().split()) == sorted((own, "jaxaug_base"))
    held = {
        path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()
    }
    assert files_of("jaxaug") <= held
    assert {
        f"jaxaug/{name}" for name in files_of("tasks") | files_of("configs")
    } <= held
    assert {
        name.removeprefix("runtime/")
        for name in files_of("runtime/t5x") | files_of("runtime/jaxaug_base")
    } <= held
    assert {
        name.removeprefix("papers/")
        for name in files_of("papers/jaxaug_papers")
        if not name.endswith(".md")
    } <= held
    homes = {"jaxaug": ROOT, "jaxaug_t5x": ROOT / "runtime"}
    homes["jaxaug_papers"] = ROOT / "papers"
    for name, home in homes.items():
        (info,) = site.glob(f"{name}-*.dist-info")
        for text in ("LICENSE", "NOTICE"):
            assert (info / "licenses" / text).read_bytes() == (home / text).read_bytes()


@pytest.mark.slow
def test_configs_of_the_papers(site: Path, tmp_path: Path):
    """Gin files have the old names; tasks have the name inside a wheel."""
    gin = site / "jaxaug_papers/pcc/configs/personachat_percvae.gin"
    assert "\nimport jaxaug.tasks as tasks\n" in gin.read_text()
    command = ["fewshot", "--config", "configs/fewshot/none.py"]
    for words, status, said in (
        (["classify", "--config", "configs/classify/msrp.py"], 1, "train.txt: no such"),
        (
            command,
            1,
            "--config configs/fewshot/none.py: no such file. Name a Python file",
        ),
    ):
        done = ran(
            [sys.executable, "-m", "jaxaug.cli", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(site)},
        )
        assert (done.returncode, said in done.stderr) == (status, True), done.stderr


@pytest.mark.slow
def test_a_run_in_an_empty_folder_with_user_defined_tasks(site: Path, tmp_path: Path):
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "mine.gin").write_text(MINE)
    done = ran(
        [sys.executable, "-m", "t5x.train", "--dry_run"]
        + ["--gin_file=configs/d3st_aug.gin", "--gin_file=mine.gin"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
    )
    assert done.returncode == 0, done.stderr
    assert "the configuration is valid" in done.stderr + done.stdout
    assert "oneDNN" not in done.stderr  # See t5x/logs/libraries.py.
    # Both modules are importable, under different names.
    assert "import jaxaug.tasks as tasks\n" in done.stdout
    assert "import tasks as tasks2\n" in done.stdout
    assert "tasks2.rate.value = 5\n" in done.stdout


@pytest.mark.slow
def test_the_runtime_works_alone(wheels: Path, tmp_path: Path):
    (wheel,) = wheels.glob("jaxaug_t5x-*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path)
    hidden = dict.fromkeys(("jaxaug", "tasks", "seqio", "clu", "tensorflow"))
    program = "import sys; sys.modules.update({}); import t5x.{}; print(t5x.__file__)"
    done = ran(
        [sys.executable, "-c", program.format(hidden, "train, t5x.eval, t5x.infer")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.stdout.strip() == str(tmp_path / "t5x/__init__.py"), done.stderr


@pytest.mark.slow
def test_the_base_needs_nothing_of_an_extra(site: Path, tmp_path: Path, sgd_tree: Path):
    """Verbs of data, evaluation, and rewording run; others name their extra."""
    place = tmp_path / "predicted/inference_eval/predictions/d3st-000007/original"
    shutil.copytree(sgd_tree / "test", place)  # The annotation, as if predicted.
    model_folder(tmp_path / "run", 0.5)
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    (tmp_path / "texts.txt").write_text("book a table for two people\n")
    light = [shlex.split(line) for line in VERBS.strip().splitlines()]
    command = [sys.executable, "-c", LIGHT]
    command.append(json.dumps([*light, *map(shlex.split, HEAVY)]))
    env = {
        **os.environ,
        "PYTHONPATH": str(site),
        "JAXAUG_CACHE_DIR": str(tmp_path / "cache"),
        "JAXAUG_DATA_DIR": str(sgd_tree),
    }
    done = ran(command, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    said = re.findall(r"^([$=]) (.*)$", done.stdout, re.MULTILINE)
    statuses = dict(zip(said[::2], said[1::2], strict=True))
    assert statuses == {
        **{("$", " ".join(words)): ("=", "0") for words in light},
        **{("$", line): ("=", "1") for line in HEAVY},
    }, done.stderr
    told = re.findall(r"extra '(\w+)': run `pip install 'jaxaug\[\1\]'`", done.stderr)
    assert told == [*HEAVY.values()], done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "grammar/v1/train/schema.json").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    "extra, lines, versions",
    [
        ("", RESEARCH + OWN_API + PLAIN_TEXT, "constraints.txt"),
        ("", RESEARCH + OWN_API + PLAIN_TEXT, "constraints-lowest.txt"),
        ("[jax]", PLAIN_TEXT + MODELS, "constraints.txt"),
    ],
)
def test_new_users_in_a_fresh_environment(
    wheels: Path, tmp_path: Path, extra, lines, versions
):
    """pip installs the wheel; its commands run elsewhere, with an empty home."""
    work, home, venv = (tmp_path / name for name in ("a folder", "home", "venv"))
    work.mkdir()
    home.mkdir()
    for name, run in (("plain", "d3st_sgd-seed0"), ("tree", "d3st_tree_6x-seed0")):
        shutil.copytree(ROOT / "results/minisgd" / run, work / name)
    (work / "tools.json").write_text(json.dumps({"tools": TOOLS}))
    (work / "texts.csv").write_text("id,text\n1,a table for two people\n2,it crashes\n")
    (wheel,) = wheels.glob("jaxaug-*.whl")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JAX"))}
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, env=env)
    pip = [venv / "bin/pip", "install", "--quiet", "--no-compile", f"{wheel}{extra}"]
    pip += ["--constraint", ROOT / versions, "--find-links", wheels]
    subprocess.run(pip, check=True, env=env)
    env |= {"HOME": str(home), "PATH": f"{venv / 'bin'}:/usr/bin:/bin"}
    done = ran(["sh", "-e", "-c", lines], cwd=work, env=env)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    for excerpt in re.findall(" # (.*)", lines):
        assert excerpt in done.stdout
    if not extra:
        found = json.loads((work / "x.json").read_text())
        assert (found["jga_orig"], found["jga_v1_5"], found["ss_jga"]) == (1, 1, 0)


def test_lines_that_a_wheel_has_otherwise(tmp_path: Path):
    renamed = runpy.run_path(str(ROOT / "setup.py"))["renamed"]
    path = tmp_path / "x.gin"
    path.write_text(
        "# import tasks\nimport tasks\nfrom tasks import dst\n"
        "    from tasks.dst import register\nimport tasks_of_others\n"
    )
    assert renamed(path) == (
        "# import tasks\nimport jaxaug.tasks as tasks\nfrom jaxaug.tasks import dst\n"
        "    from jaxaug.tasks.dst import register\nimport tasks_of_others\n"
    )
    path.write_text("import tasks.dst\n")
    with pytest.raises(
        ValueError, match=r"x.gin: write 'import tasks.dst' as `from tasks import ...`"
    ):
        renamed(path)


def test_names_in_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert bundled.tasks_module() == "tasks"
    assert bundled.tasks_module("tasks.views") == "tasks.views"
    assert bundled.folder_of_configs() == str(ROOT)
    monkeypatch.chdir(tmp_path)
    _, name = config_file.read("configs/augment/eda.py", "configs/augment")
    assert name == str(ROOT / "configs/augment/eda.py")


def test_names_in_a_wheel(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bundled, "_INSIDE", True)
    assert bundled.tasks_module() == "jaxaug.tasks"
    assert bundled.tasks_module("tasks.views") == "jaxaug.tasks.views"
    assert bundled.tasks_module("tasks2.views") == "tasks2.views"
    assert bundled.folder_of_configs() == str(ROOT / "jaxaug")


def test_a_run_of_a_wheel_is_read_in_a_checkout(tmp_path: Path):
    path = tmp_path / "config.gin"
    path.write_text(
        "from jaxaug.tasks import vocabulary\nimport jaxaug.tasks.vocabulary as words\n"
        "A = @vocabulary.padded_size\nB = @words.padded_size\n"
    )
    for name in "AB":
        found = run_config.build(path, name)
        assert (found.__module__, found.__name__) == ("tasks.vocabulary", "padded_size")
