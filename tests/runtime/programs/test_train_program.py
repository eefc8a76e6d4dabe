"""The programs, end to end: a small T5 on a SeqIO task with the stock run files."""

import json

import jax
import pytest
from jaxaug_base.event_files import read_scalars
from t5x import checkpoints

pytestmark = pytest.mark.slow

STOCK = "t5x/configs/runs"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, here):
    """Returns a working folder with the data, and with the compilation cache."""
    import importlib.util

    folder = tmp_path_factory.mktemp("programs")
    spec = importlib.util.find_spec("toy_seqio")
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    source.write_files(folder / "data")
    return folder


@pytest.fixture(scope="module")
def env(folder):
    return {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


@pytest.fixture(scope="module")
def succeed(folder, env, run_program):
    """Runs a program that must succeed; returns its standard error."""

    def run(name, *flags, **more):
        status, out, err = run_program(name, *flags, cwd=folder, env=env | more)
        assert status == 0, err
        return out + err

    return run


def flags(here, stock, *bindings, settings=True):
    files = ["toy_model.gin", f"{STOCK}/{stock}.gin"]
    files += ["toy_settings.gin"] * settings
    return [
        f"--gin_search_paths={here},.",
        *(f"--gin_file={name}" for name in files),
        *(f"--gin.{binding}" for binding in bindings),
    ]


def train_flags(here, model_dir, *bindings, steps=400, period=200):
    return flags(
        here, "pretrain", f'MODEL_DIR="{model_dir}"', f"TRAIN_STEPS={steps}",
        f"EVAL_PERIOD={period}", *bindings,
    )  # fmt: skip


@pytest.fixture(scope="module")
def pretrained(here, succeed):
    """Returns an uninterrupted run of 400 steps."""
    return succeed("train", *train_flags(here, "straight"))


def params(path):
    return jax.tree.leaves(checkpoints.load_t5x_checkpoint(str(path)))


def json_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


TAGS = """
accuracy cross_ent_loss cross_ent_loss_per_all_target_tokens learning_rate
effective_batch_size/decoder_target_tokens effective_batch_size/encoder_input_tokens
learning_rate/current loss loss_per_all_target_tokens loss_per_nonpadding_target_token
non_padding_fraction/decoder_target_tokens non_padding_fraction/encoder_input_tokens
non_padding_fraction/loss_weights non_padding_fraction/overall
timing/checkpoint_seconds timing/compilation_seconds timing/init_or_restore_seconds
timing/seconds timing/seqs timing/seqs_per_second timing/seqs_per_second_per_core
timing/steps_per_second timing/target_tokens_per_second
timing/target_tokens_per_second_per_core timing/train_iter_warmup timing/uptime
z_loss z_loss_per_all_target_tokens
"""
FILES = """
checkpoint_200 checkpoint_400 config.gin config_digest.json finished_run.json
inference_eval model-info.txt train training_eval
"""


def test_training_leaves_what_it_should(pretrained, folder):
    model_dir = folder / "straight"
    assert checkpoints.all_steps(model_dir) == [200, 400]
    assert {p.name for p in model_dir.iterdir()} == set(FILES.split())
    assert "token_embedder/embedding" in (model_dir / "model-info.txt").read_text()
    assert "TRAIN_STEPS = 400" in (model_dir / "config.gin").read_text()
    scalars = read_scalars(model_dir / "train")
    assert list(scalars["loss"]) == list(range(1, 401))
    assert scalars["loss"][400] < scalars["loss"][1] / 2
    assert set(TAGS.split()) <= set(scalars)
    evaluated = read_scalars(model_dir / "training_eval" / "toy")
    assert list(evaluated["loss"]) == [200, 400]


@pytest.fixture(scope="module")
def finetuned(pretrained, here, succeed):
    """Returns a run of 20 more steps, evaluated."""
    bindings = (
        'MODEL_DIR="tuned"',
        'INITIAL_CHECKPOINT_PATH="straight/checkpoint_400"',
        "TRAIN_STEPS=0",
        "TRAIN_STEPS_RELATIVE=20",
        "EVAL_PERIOD=10",
    )
    return succeed("train", *flags(here, "finetune", *bindings))


def test_finetuning_goes_on_from_the_step_of_the_checkpoint(finetuned, folder):
    model_dir = folder / "tuned"
    assert checkpoints.all_steps(model_dir) == [410, 420]
    lines = json_lines(model_dir / "inference_eval" / "toy-metrics.jsonl")
    assert [line["step"] for line in lines] == [410, 420]
    assert len(json_lines(model_dir / "inference_eval" / "toy-000420.jsonl")) == 9
    events = read_scalars(model_dir / "inference_eval" / "toy")
    exact = lines[-1]["exact"]
    assert events["eval/exact"][420] == pytest.approx(exact)
    assert f"step 420  inference eval of toy: exact {exact:.4g}" in finetuned


def test_eval_of_all_checkpoints_once(finetuned, folder, here, succeed):
    command = eval_flags(here, "evaluated")
    succeed("eval", *command)
    done = (folder / "evaluated" / "eval.toy.ckpt").read_text().splitlines()
    assert [line.rsplit("_", 1)[1] for line in done] == ["410", "420"]
    paths = [folder / d / "inference_eval" for d in ("evaluated", "tuned")]
    now, then = (json_lines(path / "toy-metrics.jsonl") for path in paths)
    assert now == then
    assert "skipping 2 checkpoints" in succeed("eval", *command)
    assert json_lines(paths[0] / "toy-metrics.jsonl") == now


def eval_flags(here, out):
    bindings = (
        'CHECKPOINT_PATH="tuned"',
        f'EVAL_OUTPUT_DIR="{out}"',
        'MIXTURE_OR_TASK_NAME="toy"',
        'utils.RestoreCheckpointConfig.mode="all"',
        'utils.DatasetConfig.split="validation"',
    )
    return flags(here, "eval", *bindings, settings=False)


def infer_flags(here, out, *bindings):
    return flags(
        here, "infer", 'CHECKPOINT_PATH="straight/checkpoint_400"',
        f'INFER_OUTPUT_DIR="{out}"', 'MIXTURE_OR_TASK_NAME="toy"',
        "TASK_FEATURE_LENGTHS={'inputs': 8, 'targets': 8}",
        "utils.DatasetConfig.batch_size=4", "infer.checkpoint_period=1", *bindings,
        settings=False,
    )  # fmt: skip


@pytest.mark.long
def test_infer_on_shards(pretrained, folder, env, here, start_program, succeed):
    succeed("infer", *infer_flags(here, "whole"))
    names = {p.name for p in (folder / "whole").iterdir()}
    output = "toy-predict.jsonl-00000-of-00001"
    assert names == {output, f"{output}.COMPLETED", "config.gin", "model-info.txt"}
    lines = json_lines(folder / "whole" / output)
    rows = (folder / "data/test.tsv").read_text().splitlines()
    words = [row.split("\t")[0] for row in rows]
    assert [line["inputs"]["inputs_pretokenized"] for line in lines] == words
    assert all(isinstance(line["prediction"], str) for line in lines)

    found = []
    command = infer_flags(here, "shards", "infer.num_shards=2")
    jobs = [
        start_program("infer", *command, f"--shard_id={shard}", cwd=folder, env=env)
        for shard in range(2)
    ]
    for shard, job in enumerate(jobs):
        _, err = job.communicate(timeout=600)
        assert job.returncode == 0, err
        name = f"toy-predict.jsonl-0000{shard}-of-00002"
        found += json_lines(folder / "shards" / name)
    assert sorted(found, key=str) == sorted(lines, key=str)


def test_infer_goes_on_after_a_stop(
    pretrained, folder, env, here, run_program, succeed
):
    """Existing chunks stay unchanged, and the others are added."""
    command = infer_flags(here, "resumed", "infer.mode='score'")
    succeed("infer", *command)
    output = folder / "resumed" / "toy-score.jsonl-00000-of-00001"
    whole = output.read_text()
    assert len(whole.splitlines()) == 11
    assert all(json.loads(line)["score"] < 0 for line in whole.splitlines())
    # As after a stop in the second chunk.
    output.with_name(f"{output.name}.COMPLETED").unlink()
    output.unlink()
    tmp = folder / "resumed" / "tmp-toy-00000-of-00001"
    tmp.mkdir()
    (tmp / f"{output.name}-chunk00000").write_text("kept\n")
    (tmp / f"{output.name}-chunk00000.COMPLETED").write_text("")
    succeed("infer", *command)
    assert output.read_text().splitlines() == ["kept", *whole.splitlines()[4:]]
    assert not tmp.exists()
    said = succeed("infer", *command)
    assert f"{output.name} is complete already: skipped" in said
    # Results of another checkpoint or configuration are not reused.
    config = (folder / "resumed/config.gin").read_text()
    other = [word.replace("checkpoint_400", "checkpoint_200") for word in command]
    status, _, err = run_program("infer", *other, cwd=folder, env=env)
    assert status == 1 and "Name another output_dir" in err and "Traceback" not in err
    assert (folder / "resumed/config.gin").read_text() == config


@pytest.mark.parametrize("mode", ["train", "eval", "infer"])
def test_dry_runs_check_the_configuration(finetuned, folder, here, succeed, mode):
    command = {
        "train": train_flags(here, "x", steps=1, period=1),
        "eval": eval_flags(here, "x"),
        "infer": infer_flags(here, "x"),
    }[mode]
    said = succeed("main", f"--run_mode={mode}", "--dry_run", *command)
    assert {"eval": "evaluate"}.get(mode, mode) + ".model" in said
    assert "nothing was run" in said
    assert not (folder / "x").exists()
