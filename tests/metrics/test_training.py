"""The page of `jaxaug report RUN --html` about the training of a run."""

import base64
import html
import json
import math
import re
import struct

import pytest
from tensorboardX.proto import event_pb2, summary_pb2

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.metrics import training

CONFIG = "TRAIN_STEPS = 4\nNAME = '<b>'\n"


def record(step, **scalars):
    """Returns an event as the trainer writes it, framed as a TFRecord."""
    values = [
        summary_pb2.Summary.Value(tag=tag.replace("__", "/"), simple_value=value)
        for tag, value in scalars.items()
    ]
    return frame(event_pb2.Event(step=step, summary=summary_pb2.Summary(value=values)))


def frame(event):
    data = event.SerializeToString()
    return struct.pack("<Q4x", len(data)) + data + bytes(4)


@pytest.fixture
def run(tmp_path):
    """Returns the folder of a run with four steps and two evaluations."""
    folder = tmp_path / "mine"
    (folder / "train").mkdir(parents=True)
    (folder / "training_eval/dev").mkdir(parents=True)
    (folder / "inference_eval").mkdir()
    (folder / "config.gin").write_text(CONFIG)
    (folder / "choices.json").write_text('{"JAXAUG_DATA_DIR": "/data/<mine>"}')
    curve = record(2, loss=3.0, learning_rate=0.1) + record(4, loss=2.0)
    (folder / "train/a.tfevents.1").write_bytes(curve)
    (folder / "training_eval/dev/a.tfevents.1").write_bytes(record(4, loss=2.25))
    scores = [{"step": 2, "bleu": 3.5, "note": "x"}, {"step": 4, "bleu": 10.25}]
    lines = "".join(f"{json.dumps(line)}\n" for line in scores) + '{"step": 6, "bl'
    (folder / "inference_eval/dev-metrics.jsonl").write_text(lines)
    for step in (2, 4):
        rows = [
            {
                "input": {
                    "inputs_pretokenized": f"in {n}",
                    "targets_pretokenized": "t",
                },
                "target": {"parsed": 1},
                "output": "t" if n else f"<i>{step}</i>",
            }
            for n in range(12)
        ]
        path = folder / f"inference_eval/dev-{step:06}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    path = folder / "inference_eval/plain-000002.jsonl"
    path.write_text(json.dumps({"target": ["a", "é"], "prediction": "b"}))
    return folder


def test_files_of_a_run(run):
    found = training.read(run)
    assert found.steps["loss"] == {2: 3.0, 4: 2.0}
    assert found.held_out == {"dev": {"loss": {4: 2.25}}}
    assert found.scores == {"dev": {"bleu": {2: 3.5, 4: 10.25}}}
    assert [one.source for one in found.samples["dev"]] == [
        f"in {n}" for n in (0, 2, 4, 7, 9)
    ]
    assert found.samples["dev"][0] == training.Sample("in 0", "t", "<i>4</i>")
    assert found.samples["plain"] == [training.Sample("", '["a", "é"]', "b")]
    assert training.read(run / "train") is None and math.isnan(training.last({}))


def test_the_page(run, tmp_path, capsys):
    page = tmp_path / "all.html"
    assert main(["report", str(run), "--html", str(page)]) == 0
    assert capsys.readouterr().out == (
        f"{run}: no robustness report; its training is on the page\nwritten: {page}\n"
    )
    text = page.read_text()
    (drawn,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', text)
    drawn = base64.b64decode(drawn).decode()
    for title in ("loss a token", "bleu", "training", "dev", "dev: 2.25"):
        assert f">{title}<" in drawn
    # It was recorded once: a value, not a curve.
    assert "learning rate" not in drawn
    assert (
        "<th>recorded once</th><th>step</th><th>value</th></tr></thead><tbody>\n"
        '<tr><td>learning rate, training</td><td class="number">2</td>'
        '<td class="number">0.1</td></tr>\n</tbody></table>'
    ) in text
    assert "accuracy of tokens" not in drawn
    assert (
        "<th></th><th>dev, step 4</th></tr></thead><tbody>\n<tr><td>bleu</td>"
        '<td class="number">10.25</td></tr>'
    ) in text
    assert text.count('<tr class="same">') == 4 and text.count('"other"') == 2
    assert "&lt;i&gt;4&lt;/i&gt;" in text and "<i>" not in text
    assert f"<pre>{html.escape(CONFIG)}</pre>" in text
    assert "JAXAUG_DATA_DIR=/data/&lt;mine&gt;" in text
    assert "Robustness" not in text and "Definitions" not in text


def test_without_a_page_a_run_has_to_be_evaluated(run, capsys):
    assert main(["report", str(run)]) == 1
    assert "has no robustness report" in capsys.readouterr().err


def test_a_run_without_curves(tmp_path, capsys):
    run = tmp_path / "bare"
    run.mkdir()
    (run / "config.gin").write_text(CONFIG)
    page = tmp_path / "all.html"
    assert main(["report", str(run), "--html", str(page)]) == 0
    text = page.read_text()
    assert "It has no event files, so there are no curves." in text
    assert "<img" not in text and "<h3>Scores" not in text


def test_a_run_that_was_evaluated_once_has_no_curves(run, tmp_path):
    (run / "train/a.tfevents.1").write_bytes(record(4, loss=2.0))
    scores = run / "inference_eval/dev-metrics.jsonl"
    scores.write_text('{"step": 4, "bleu": 10.25}')
    assert main(["report", str(run), "--html", str(tmp_path / "all.html")]) == 0
    text = (tmp_path / "all.html").read_text()
    assert "<img" not in text and "no event files" not in text
    assert "<td>loss a token, dev</td>" in text
    assert text.count("bleu</td>") == 1


def test_damaged_lines_of_scores(tmp_path, caplog):
    """Invalid lines are skipped with a warning; infinite numbers are refused."""
    folder = tmp_path / "run/inference_eval"
    folder.mkdir(parents=True)
    (tmp_path / "run/config.gin").write_text("x = 1\n")
    scores = folder / "t-metrics.jsonl"
    good = ['{"step": 1, "accuracy": 0.5}', '{"step": 2, "accuracy": 1}']
    bad = ["[" * 100_000, '{"step": ' + "1" * 5000 + "}", '{"step": 3, "step": 4}']
    scores.write_text("\n".join([good[0], *bad, good[1], '{"step": 3, "accu']))
    outputs = {"input": ["no object"], "target": "a\u2028b", "prediction": 3}
    (folder / "t-2.jsonl").write_text(json.dumps(outputs, ensure_ascii=False) + "\n")
    with caplog.at_level("WARNING"):
        found = training.read(tmp_path / "run")
    assert found.scores == {"t": {"accuracy": {1: 0.5, 2: 1.0}}}
    assert found.samples == {"t": [training.Sample("", "a\u2028b", "3")]}
    left_out = [r.getMessage().partition("line ")[2] for r in caplog.records]
    assert [text[: len("2 is left out")] for text in left_out] == [
        f"{number} is left out" for number in (2, 3, 4, 6)
    ]
    assert "line 2 is left out: invalid JSON: nested too deeply" in caplog.text
    scores.write_text('{"step": 1, "accuracy": ' + "1" * 400 + "}\n")
    with pytest.raises(UserError, match="t-metrics.jsonl: the score 1+.* is too great"):
        training.read(tmp_path / "run")
