"""Every gin file parses, resolves, and has a header with its command."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support import grids
from tests.support.gin_files import gin_files
from tests.support.programs import ran

ROOT = Path(__file__).resolve().parent.parent
FILES = {n: path.read_text(encoding="utf-8") for n, path in gin_files().items()}
EXPERIMENTS = [name for name in FILES if name.count("/") == 1]
SCALES = [name for name in FILES if name.startswith("configs/scale/")]
T5_SCALES = [name for name in SCALES if "smollm2" not in name]
# Values that headers leave open: the model of an evaluation, also for a decoder.
MODEL = "configs/models/t5_scratch.gin"
DECODES = "configs/paraphrase_minisgd.gin"


def header(name):
    """Returns the comment at the start of a file, with continued lines joined."""
    head = FILES[name].split("\n\n")[0]
    assert head.startswith("# "), f"{name} does not begin with a comment"
    lines = (line.removeprefix("#") for line in head.splitlines())
    return re.sub(r" \\\n\s*", " ", "\n".join(lines))


def commands(name):
    """Returns the commands of a file's header that read it, as (program, flag, ...)."""
    text = header(name).replace("=MODEL.gin", f"={MODEL}").replace("$SEED", "1")
    if name.startswith("configs/decode/"):
        base = f"python -m t5x.train --gin_file={DECODES} --gin"
        text = text.replace("--gin", base, 1)
    found = [
        (program, *shlex.split(flags))
        for program, flags in re.findall(r"python -m (t5x\.\w+) (.*)", text)
    ]
    return [words for words in found if f"--gin_file={name}" in words]


# The commands of the rows of a paper's tables.
ROWS = [
    (program, *shlex.split(flags))
    for program, flags in re.findall(
        r"python -m (t5x\.\w+) ([^`\n]*)",
        (ROOT / "papers/jaxaug_papers/tree/README.md").read_text(encoding="utf-8"),
    )
]
# Tasks without data here: a package of the reader, and MultiWOZ.
ELSEWHERE = {"extending.md", "multiwoz.md"}
READERS = "=my-t5/network.gin"  # of a model of the reader


def shown():
    """Returns the commands of blocks and tables in pages, for one row of a loop.

    For `jaxaug launch`, which reads no gin files, it is the command for the program.
    """
    start = r"(?:python -m (t5x\.\w+)|^    jaxaug (launch) [a-z]\w+)"
    papers = (ROOT / "papers").rglob("README.md")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *papers):
        text = re.sub(r" \\\n\s*", " ", path.read_text(encoding="utf-8"))
        for program, launch, flags in re.findall(rf"(?m){start} ([^`\n]*)", text):
            words = re.split(r"\s{2,}#? |\s+# | \[", flags)[0].replace("$ROW", "pcc")
            if path.name in ELSEWHERE or "..." in words or READERS in words:
                continue
            if launch:
                words = words.replace("--gin_file ", "--gin_file=")
                given = [w for w in shlex.split(words) if w.startswith("--gin")]
                if given:
                    yield "t5x.train", *given
            else:
                yield program, *shlex.split(words)


# Folders of files that differ in a few numbers: `make test` resolves two of each.
ALIKE = [
    [name for name in FILES if name.startswith(f"configs/{folder}/")][2:]
    for folder in ("curriculum", "decode", "models")
]
LATER = [*T5_SCALES[2:], *(name for names in ALIKE for name in names)]
SHORT = list(dict.fromkeys(j for n in FILES if n not in LATER for j in commands(n)))
# The jobs of `make test`, then the jobs of `make test-long`.
JOBS = list(
    dict.fromkeys([*SHORT, *(j for n in LATER for j in commands(n)), *ROWS, *shown()])
)


def needed(request):
    """Returns the jobs of the selected tests of this file."""
    tests = [item for item in request.session.items if item.path == request.path]
    kinds = {item.get_closest_marker("long") is not None for item in tests}
    short = SHORT if False in kinds else []
    long = [*ROWS, *JOBS[len(SHORT) :]] if True in kinds else []
    return list(dict.fromkeys([*short, *long]))


@pytest.fixture(scope="module")
def outputs(request, python, tmp_path_factory):
    """Returns the output of the dry run of each needed job."""
    folder = tmp_path_factory.mktemp("dry_runs")
    jobs = needed(request)
    (folder / "jobs.json").write_text(json.dumps(jobs))
    script = str(ROOT / "tests" / "dry_runs.py")
    # Variants that need weights or a network; variants of EDA replace them.
    words = " ".join(word for job in jobs for word in job)
    named = set(re.findall(r"(?:d3st|d3st2a|t5dst)_(\w+?)_[246]x", words))
    missing = sorted(named - {"aug", "eda", "tree", "sgdx"})
    for name in missing:
        (folder / name).symlink_to(ROOT / "papers/jaxaug_papers/minisgd/variants/eda")
    paths = os.pathsep.join(str(folder / name) for name in missing)
    (folder / "pairs.tsv").write_text("a text\tanother text\n")
    # Checkpoints of `make demo` in the repository would change the output of the jobs.
    repository = folder / "repository"
    repository.mkdir()
    for path in ROOT.iterdir():
        if path.name not in ("runs", "models"):
            (repository / path.name).symlink_to(path)
    subprocess.run(
        [python, script, str(folder / "jobs.json"), str(folder)], cwd=repository,
        env={**os.environ, "JAXAUG_VARIANTS_DIR": paths,
         "JAXAUG_PARAPHRASES": str(folder / "pairs.tsv")},
        check=True, timeout=600,
    )  # fmt: skip
    return {job: (folder / f"{i}.txt").read_text() for i, job in enumerate(jobs)}


NO_CHECKPOINT = re.compile(
    r"\nerror: (?:Path is not a valid checkpoint: |Checkpoint path\(s\) must be valid "
    r"directories when using restore mode 'all' or 'latest': )(\S+) (?:does not "
    r"exist|is none)[^\n]*\n\nexit status 1\n$"
)


def named_folders(text):
    """Returns the initial checkpoints that a printed configuration names."""
    return re.findall(r"(?m)^(?:INITIAL_)?CHECKPOINT_PATH = '([^']+)'$", text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "job", grids.first(len(SHORT), map(pytest.param, JOBS)), ids=" ".join
)
def test_the_command_in_a_header_or_page_resolves(outputs, job):
    text = outputs[job]
    if "forbids its download" in text and text.endswith("\nexit status 1\n"):
        pytest.skip("SmolLM2 is not on this machine: `jaxaug models fetch smollm2`")
    assert "has no effect" not in text
    if found := NO_CHECKPOINT.search(text):
        # Folders of a command that continues another one: DIR, runs/..., or models/...
        assert any(found[1].endswith(word) for word in named_folders(text)), text
        return
    assert text.endswith("\nexit status 0\n"), text
    assert "dry run: the configuration is valid; nothing was run." in text


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_have_separate_folders(outputs, name):
    (text,) = (
        outputs[job] for job in commands(name) if "gin_file" not in " ".join(job[2:])
    )
    assert f"MODEL_DIR = 'runs/{Path(name).stem}'" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", grids.first(2, T5_SCALES))
def test_scales_change_the_experiment_under_them(outputs, name):
    (job,) = commands(name)
    text = outputs[job]
    size, _, converted = Path(name).stem.partition("_")
    if converted:
        folder = f"models/t5-v1_1-{size}"
        assert f"INITIAL_CHECKPOINT_PATH = '{folder}/checkpoint_0'" in text
        assert f"VOCABULARY_FILE = '{folder}/spiece.model'" in text
        assert "default_vocabulary.path = %VOCABULARY_FILE" in text
        assert "INITIAL_STEP = 0" in text
    else:
        assert f"t5_1_1_{size}/checkpoint_1000000" in text
    assert "'inputs': 1024, 'targets': 256" in text


@pytest.mark.slow
def test_smollm2_at_full_size_is_the_small_run_for_longer(outputs):
    (small, *_), (full,) = (
        commands(f"configs/{name}.gin")
        for name in ("runs/sgd_smollm2", "scale/smollm2_sgd")
    )
    changed = ("TRAIN_STEPS", "EVAL_PERIOD", "WARMUP_STEPS", "RANDOM_SEED")
    changed += ("MODEL_DIR", "MIXTURE_OR_TASK_NAME")

    def rest(job):
        lines = outputs[job].splitlines()
        return {x for x in lines if not x.startswith(changed) and " = " in x}

    for line in ("TRAIN_STEPS = 6000", "RANDOM_SEED = 1"):
        assert f"\n{line}\n" in outputs[full]
    assert rest(small) == rest(full)


@pytest.mark.slow
@pytest.mark.long
def test_the_tables_of_the_paper_train_as_published(outputs):
    trained = [job for job in ROWS if job[0] == "t5x.train"]
    assert len(trained) == 17  # Rows of tables 2 and 7; two are in both.
    for job in trained:
        words, text = " ".join(job), outputs[job]
        is_t5dst, is_plain = "t5dst_" in words, '_sgd"' in words
        batch = 256 if is_t5dst else 32
        steps = (20000 if is_plain else 40000) if is_t5dst else 100000
        assert f"\nFINETUNE_BATCH_SIZE = {batch}\n" in text
        assert f"\nFINETUNE_STEPS = {steps}\n" in text
        assert ("trainer.EarlyStoppingAction.patience = 3" in text) != is_t5dst
        assert "BATCH_SIZE = %FINETUNE_BATCH_SIZE" in text
        assert "train_script.train.relative_steps = %MAX_FINETUNING_STEPS" in text
        assert "train_script.train.actions = %FINETUNE_ACTIONS" in text


def test_d3st_of_the_paper_has_the_prompts_of_figure_2a():
    trained = [" ".join(job) for job in ROWS if "runs/paper/" in " ".join(job)]
    d3st = [words for words in trained if "t5dst" not in words]
    assert len(d3st) == 12  # 11 rows, and an evaluation.
    for words in d3st:
        assert "d3st_" not in words.replace("configs/d3st_aug.gin", "")
        if "MIXTURE_OR_TASK_NAME" in words:
            assert 'MIXTURE_OR_TASK_NAME="d3st2a_' in words
            assert "--gin_file=configs/runs/figure2a.gin" in words
        else:
            assert 'EVAL_MIXTURE="d3st2a_eval"' in words


def test_the_loop_over_seeds_has_the_prompts_of_figure_2a(tmp_path):
    for name in ("python", "jaxaug"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (tmp_path / name).chmod(0o755)
    script = ROOT / "papers/jaxaug_papers/tree/paper.sh"
    found = ran(
        ["bash", script, "d3st2a", "sgd pegasus_6x", "7"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=True,
    )
    plain, _, train, evaluate, report = found.stdout.splitlines()
    assert "--gin_file=configs/d3st.gin " in plain
    assert "--gin_file=configs/d3st_aug.gin " in train
    for words in (plain, train):
        assert "--gin_file=configs/runs/figure2a.gin" in words
    assert "MIXTURE_OR_TASK_NAME='d3st2a_pegasus_6x'" in train
    assert "EVAL_MIXTURE='d3st2a_eval'" in evaluate
    assert report.endswith("runs/d3st2a_pegasus_6x-base-seed7")


def test_each_file_is_resolved_by_its_command_or_by_a_file_that_includes_it():
    resolved = {name for name in FILES if commands(name)}
    assert resolved >= {*EXPERIMENTS, *SCALES}
    pending = sorted(resolved)
    while pending:
        for part in re.findall(r"(?m)^include '([^']+)'", FILES[pending.pop()]):
            if part in FILES and part not in resolved:
                resolved.add(part)
                pending.append(part)
    assert set(FILES) == resolved


def test_headers_are_lab_book_pages():
    for name in (*EXPERIMENTS, *SCALES):
        text = header(name)
        for pattern in (
            r"(?m)^ Command:  \S",
            r"(?m)^ Hardware: \S",
            r"(?m)^ Duration: .*\d|^ Duration, score: not run yet",
            r"(?m)^ Score:    .*\d|^ Duration, score: not run yet",
        ):
            assert re.search(pattern, text), f"{name}: no line like {pattern!r}"


LOGGERS = re.compile(r"logger_cls = \[(.*?)\]", re.DOTALL)


def test_evaluation_is_logged():
    found = 0
    for path in (*ROOT.glob("configs/**/*.gin"), *ROOT.glob("runtime/t5x/**/*.gin")):
        text = path.read_text(encoding="utf-8")
        if "logger_cls" not in text:
            continue
        found += 1
        # The plain class, the default of evaluate(), does not know the loggers.
        assert "inference_evaluator_cls = @seqio.Evaluator\n" in text, path
        (loggers,) = LOGGERS.findall(text)
        names = re.findall(r"@\w+\.(\w+)", loggers)
        # Only the first of the two creates the folder that both write to.
        assert names.index("TensorBoardLogger") < names.index("JSONLogger"), path
    assert found > 3
