"""The robustness logger: its scores, files, and output after an evaluation."""

import csv
import json
import os
import random
import shutil
import subprocess

import msgspec
import numpy as np
import pytest

from jaxaug.cli import main
from jaxaug.feed import recipes
from jaxaug.formats.d3st import D3STFormatter
from jaxaug.formats.t5dst import T5DSTFormatter
from jaxaug.metrics import benchmark, frames, report
from jaxaug_papers import minisgd
from tasks import metrics
from tasks.report_logger import RobustnessLogger
from tests.support import grids

FORMATTERS = {
    "d3st": (D3STFormatter, metrics.d3st_postprocess),
    "t5dst": (T5DSTFormatter, metrics.t5dst_postprocess),
}
WORDINGS = ["sgd", *(f"sgdx_v{n}" for n in range(1, 6))]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "mini"
    return minisgd.write(
        folder, train_dialogues=1, dev_dialogues=5, test_dialogues=12, seed=3
    )


@pytest.fixture(autouse=True)
def environment(world, monkeypatch):
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(world))
    monkeypatch.delenv("JAXAUG_VARIANTS_DIR", raising=False)


def answers(world, task, seed=None, split="test"):
    """Returns targets of a task, and predictions that `seed` damages."""
    family = task.partition("_")[0]
    corpus = recipes.table(world).recipes[task][split].corpus
    loaded = benchmark.load(world, corpus.split, corpus.variant)
    make, postprocess = FORMATTERS[family]
    options = recipes.table(world).recipes[task][split].options
    formatter = make(loaded.schema, options)
    rng = random.Random(f"{seed} {task}")
    targets, predictions = [], []
    for dialogue in loaded.dialogues.values():
        for example in formatter.dialogue(dialogue):
            fields = msgspec.structs.asdict(example) | {"split": corpus.split}
            targets.append(postprocess(example.targets, example=fields, is_target=True))
            text = example.targets
            if seed is not None and rng.random() < 0.3:
                words = text.split()
                del words[rng.randrange(len(words))]
                text = " ".join(words)
            predictions.append(postprocess(text, example=fields, is_target=False))
    return targets, predictions


def log(logger, task, step, targets, predictions):
    logger(
        task_name=task, step=step, metrics={}, dataset=None,
        inferences={"prediction": predictions, "output": []}, targets=targets,
    )  # fmt: skip


def evaluate_all(logger, world, family, step, seed=None, keep=None, split="test"):
    for wording in WORDINGS:
        targets, predictions = answers(world, f"{family}_{wording}", seed, split)
        task = f"{family}_{wording}"
        log(logger, task, step, targets[:keep], predictions[:keep])


def tree(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.*"))


@pytest.mark.parametrize("family", ["d3st", "t5dst"])
def test_the_report_equals_that_of_evaluate_sgdx(world, tmp_path, capsys, family):
    logger = RobustnessLogger(output_dir=str(tmp_path / "inference_eval"))
    evaluate_all(logger, world, family, 50, seed=1)
    printed = capsys.readouterr().out
    name = f"{family}-000050"
    places = [
        f"predictions/{name}/{w}/dialogues.json" for w in ("original", "v1", "v5")
    ]
    files = tree(tmp_path / "inference_eval")
    assert set(places) < set(files) and len(files) == 6 + 4
    made = json.loads(
        (tmp_path / "inference_eval" / "robustness" / f"{name}.json").read_text()
    )
    output = tmp_path / "m.json"
    assert (
        main(
            ["evaluate", "sgdx", "--data_dir", str(world), "--split", "test"]
            + ["--predictions", str(tmp_path / "inference_eval" / "predictions" / name)]
            + ["--output", str(output)]
        )
        == 0
    )
    scored = json.loads(output.read_text())
    about, _ = made.pop("about"), scored.pop("about")
    assert made == scored
    kept = (tmp_path / "inference_eval/robustness" / f"{name}.frames.npz").read_bytes()
    assert kept == (tmp_path / "m.frames.npz").read_bytes()
    table = frames.read_frames(output)
    assert table is not None and table.dialogue.shape == (made["frames"],)
    assert np.nanmean(table.scores[0, 0]) == made["jga_orig"]
    assert np.nanmean(table.scores[2, 1:], axis=1).mean() == made["jga_v1_5_unseen"]
    assert 0.2 < made["jga_v1_5"] < 0.99 and made["ss_jga"] > 0.05
    assert (
        about["family"] == family and about["step"] == 50 and about["split"] == "test"
    )
    assert about["frames_of_split"] == made["frames"]
    assert "PARTIAL" not in printed
    run = report.Run.of_report(f"{family} step 50", made)
    assert report.text_table([run]) in printed
    rows = list(
        csv.DictReader((tmp_path / f"inference_eval/robustness/{name}.csv").open())
    )
    assert float(rows[0]["ss_jga"]) == made["ss_jga"]
    picture = tmp_path / "inference_eval" / "robustness" / f"{name}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_perfect_answers_score_one(world, tmp_path):
    evaluate_all(RobustnessLogger(str(tmp_path)), world, "d3st", 7)
    made = json.loads((tmp_path / "robustness" / "d3st-000007.json").read_text())
    assert made["jga_orig"] == made["jga_v1_5"] == 1.0
    assert made["ss_jga"] == 0.0
    assert made["per_variant"]["v2"]["#ALL_SERVICES"]["active_intent_accuracy"] == 1.0


@pytest.mark.parametrize("family", ["d3st", "t5dst"])
def test_a_part_of_the_frames_is_scored_and_said(world, tmp_path, capsys, family):
    evaluate_all(RobustnessLogger(str(tmp_path)), world, family, 1, keep=23)
    made = json.loads((tmp_path / "robustness" / f"{family}-000001.json").read_text())
    assert made["jga_v1_5"] == 1.0  # a frame cut in two would count as wrong
    total = made["about"]["frames_of_split"]
    # T5DST: 23 slots are a few frames, the last of them incomplete.
    assert made["frames"] == 23 if family == "d3st" else 1 < made["frames"] < 10
    message = f"PARTIAL: {made['frames']} of {total} frames of 'test' were evaluated"
    assert message in capsys.readouterr().out
    path = tmp_path / "predictions" / f"{family}-000001" / "v1" / "dialogues.json"
    assert 0 <= len(json.loads(path.read_text())) < 12


def test_the_table_waits_for_all_wordings_of_one_step(world, tmp_path, capsys):
    logger = RobustnessLogger(str(tmp_path))
    made = {w: answers(world, f"d3st_{w}", split="validation") for w in WORDINGS}
    for wording in WORDINGS[:-1]:
        log(logger, f"d3st_{wording}", 1, *made[wording])
    log(logger, f"d3st_{WORDINGS[-1]}", 2, *made[WORDINGS[-1]])  # another step
    assert not (tmp_path / "robustness").exists()
    assert capsys.readouterr().out == ""
    for wording in reversed(WORDINGS[:-1]):
        log(logger, f"d3st_{wording}", 2, *made[wording])
    assert tree(tmp_path / "robustness") == [
        f"d3st-000002.{e}" for e in ("csv", "frames.npz", "json", "png")
    ]
    assert (
        json.loads((tmp_path / "robustness/d3st-000002.json").read_text())["about"][
            "split"
        ]
        == "dev"
    )


def test_other_tasks_are_passed_over(world, tmp_path):
    logger = RobustnessLogger(str(tmp_path))
    log(logger, "glue_cola_v002", 1, [0, 1], [1, 0])
    targets, predictions = answers(world, "d3st_sgd")
    logger("d3st_sgd", 1, {}, None, None, None)
    logger("d3st_sgd", 1, {}, None, {"score": [0.0]}, targets)
    assert list(tmp_path.iterdir()) == []
    log(logger, "d3st_sgd", None, targets, predictions)
    assert tree(tmp_path) == ["predictions/d3st--00001/original/dialogues.json"]


def test_a_missing_matplotlib_does_not_end_the_run(
    world, tmp_path, monkeypatch, capsys
):
    def fail(path, runs):
        raise report.UserError("matplotlib is not installed")

    monkeypatch.setattr(report, "write_png", fail)
    evaluate_all(RobustnessLogger(str(tmp_path)), world, "d3st", 3, keep=9)
    assert tree(tmp_path / "robustness") == [
        f"d3st-000003.{e}" for e in ("csv", "frames.npz", "json")
    ]
    assert "JGA_orig" in capsys.readouterr().out


@pytest.mark.parametrize("kept", grids.first(2, [(), (1, 4), pytest.param((2,))]))
def test_fewer_variants_are_reported_as_such(
    world, tmp_path, monkeypatch, capsys, kept
):
    data = tmp_path / "data"
    shutil.copytree(world, data)
    shutil.rmtree(data / "sgd_x")
    for number in kept:
        name = f"sgd_x/data/v{number}"
        shutil.copytree(world / name, data / name)
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(data))
    run = tmp_path / "run"
    logger = RobustnessLogger(str(run / "inference_eval"))
    for task in recipes.table(data).mixtures["d3st_eval"]:
        log(logger, task, 5, *answers(data, task, seed=1))
    printed = capsys.readouterr().out
    report_file = run / "inference_eval/robustness/d3st-000005.json"
    made = json.loads(report_file.read_text())
    scores = [
        made["per_variant"][f"v{n}"]["#ALL_SERVICES"]["joint_goal_accuracy"]
        for n in kept
    ]
    assert made["frames"] == made["about"]["frames_of_split"]
    assert 0 < made["jga_orig"] < 1
    assert made["jga_v1_5"] == (pytest.approx(np.mean(scores)) if kept else None)
    assert (made["ss_jga"] is None) == (len(kept) < 2)
    # The table, the intervals of the same figures, and the page.
    page = tmp_path / "a.html"
    assert main(["report", str(run), "--html", str(page), "--resamples", "100"]) == 0
    missing = [f"v{n}" for n in range(1, 6) if n not in kept]
    note = (
        f"not evaluated on {', '.join(missing)}: mean and sensitivity are over "
        f"{', '.join(f'v{n}' for n in kept)}"
        if kept
        else "evaluated on the original schemas only: JGA, and no schema sensitivity. "
        "`jaxaug augment --splits train,test` makes variants"
    )
    shown = capsys.readouterr().out
    assert f"d3st step 5: {note}\n" in printed
    assert f"run: {note}\n" in shown and f"run: {note}." in page.read_text()
    assert "run (1 seed)" in shown
    # Predictions of the same wordings are scored alike.
    predictions = run / "inference_eval/predictions/d3st-000005"
    output = tmp_path / "m.json"
    assert (
        main(
            ["evaluate", "sgdx", "--data_dir", str(data), "--split", "test"]
            + ["--predictions", str(predictions), "--output", str(output)]
        )
        == 0
    )
    scored = json.loads(output.read_text())
    assert scored.pop("about")["wordings_not_evaluated"] == missing
    made.pop("about")
    assert scored == made


EVALUATION = """
import sys, seqio, tasks
from tasks.report_logger import RobustnessLogger

evaluator = seqio.Evaluator(
    "d3st_eval", seqio.EncDecFeatureConverter(pack=False), eval_split="test",
    num_examples=10, logger_cls=[seqio.JSONLogger, RobustnessLogger], log_dir=sys.argv[1],
)
def predict(dataset):
    return [(i, e["decoder_target_tokens"].tolist()) for i, e in dataset.as_numpy_iterator()]
evaluator.evaluate(compute_metrics=True, step=4, predict_fn=predict)[0].result()
evaluator.close()
"""


@pytest.mark.slow
def test_as_a_logger_of_seqio(python, world, tmp_path):
    """It runs in seqio.Evaluator with the registered tasks, next to the JSON logger."""
    (tmp_path / "log").mkdir()
    done = subprocess.run(
        [python, "-c", EVALUATION, str(tmp_path / "log")],
        env=os.environ | {"JAXAUG_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(
        (tmp_path / "log" / "robustness" / "d3st-000004.json").read_text()
    )
    metrics_line = (tmp_path / "log" / "d3st_sgdx_v5-metrics.jsonl").read_text()
    assert made["jga_orig"] == made["jga_v1_5"] == 1.0 and made["frames"] == 10
    assert json.loads(metrics_line)["joint_goal_accuracy"] == 100.0
    assert "PARTIAL: 10 of" in done.stdout
    assert (tmp_path / "log" / "d3st_sgd-000004.jsonl").exists()
