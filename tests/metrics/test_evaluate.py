"""`jaxaug evaluate sgd|sgdx` through the command line."""

import json
import shutil
import statistics
from pathlib import Path

import pytest

from jaxaug.cli import main

VARIANTS = ("v1", "v2", "v3", "v4", "v5")
SEEN = {"Restaurants_1", "Hotels_2"}


def put(folder, dialogues):
    folder.mkdir(parents=True)
    text = json.dumps(list(dialogues.values()))
    (folder / "dialogues_001.json").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def references(data_dir, oracle, renamed):
    """Returns wording -> dialogue id -> dialogue in the words of the wording."""
    original = oracle.read_dialogues(data_dir / "test")
    worded = {
        variant: {key: renamed(d, variant[1]) for key, d in original.items()}
        for variant in VARIANTS
    }
    return {"original": original} | worded


@pytest.fixture(scope="module")
def guesses(references, corrupted):
    return {
        wording: corrupted(dialogues, seed)
        for seed, (wording, dialogues) in enumerate(references.items())
    }


@pytest.fixture(scope="module")
def predictions(guesses, tmp_path_factory):
    folder = tmp_path_factory.mktemp("predictions")
    for wording, dialogues in guesses.items():
        put(folder / wording, dialogues)
    return folder


def services_of(oracle, data_dir, wording):
    path = data_dir / "test" / "schema.json"
    if wording != "original":
        path = data_dir / "sgd_x" / "data" / wording / "test" / "schema.json"
    return oracle.read_services(path)


def evaluate(command, data_dir, predictions, output, *options):
    return main(
        ["evaluate", command, "--data_dir", str(data_dir), "--split", "test"]
        + ["--predictions", str(predictions), "--output", str(output), *options]
    )


@pytest.mark.parametrize(
    ("wording", "options"),
    [("original", ()), ("v2", ("--exact", "--joint_across_turn"))],
)
def test_sgd(
    data_dir, references, guesses, predictions, oracle, tmp_path, wording, options,
    capsys,
):  # fmt: skip
    output = tmp_path / "sub" / "m.json"
    extra = () if wording == "original" else ("--variant", wording)
    folder = predictions / wording
    assert evaluate("sgd", data_dir, folder, output, *options, *extra) == 0
    report = json.loads(output.read_text())
    about = report.pop("about")
    services = services_of(oracle, data_dir, wording)
    seen = {s for s in services if s in SEEN or s[:-1] in SEEN}
    expected = oracle.evaluate(
        references[wording], guesses[wording], services, seen, not options,
        bool(options),
    )  # fmt: skip
    assert report.keys() == expected.keys()
    for group, metrics in expected.items():
        assert report[group] == pytest.approx(metrics, abs=1e-9, rel=0)
    assert about["variant"] == wording and about["exact"] is bool(options)
    assert "product of the slot scores" in about["definitions"]["joint_goal_accuracy"]
    assert about["counts"]["dialogues"] == 120
    assert about["counts"]["ignored"]["slots that the schema lacks"] > 0
    printed = capsys.readouterr()
    jga = f"{100 * expected['#ALL_SERVICES']['joint_goal_accuracy']:.2f}"
    row = next(r for r in printed.out.splitlines() if r.startswith("#ALL_SERVICES"))
    assert row.split()[1] == jga
    assert "slots that the schema lacks" in printed.err
    assert [path.name for path in output.parent.iterdir()] == ["m.json"]


@pytest.mark.parametrize("options", [(), ("--joint_across_turn",)])
def test_sgdx(
    data_dir, references, guesses, predictions, oracle, tmp_path, capsys, options
):
    """The option makes every figure count turns instead of frames."""
    output = tmp_path / "m.json"
    assert evaluate("sgdx", data_dir, predictions, output, *options) == 0
    report = json.loads(output.read_text())
    rows = {suffix: {} for suffix in ("", "_seen", "_unseen")}
    for wording in references:
        services = services_of(oracle, data_dir, wording)
        for dialogue_id, turn, name, metrics in oracle.per_frame(
            references[wording], guesses[wording], services
        ):
            original = name if wording == "original" else name[:-1]
            unit = dialogue_id, turn, "" if options else original
            for suffix in ("", "_seen" if original in SEEN else "_unseen"):
                row = rows[suffix].setdefault(unit, {})
                row[wording] = row.get(wording, 1.0) * metrics["joint_goal_accuracy"]
    for suffix, units in rows.items():
        table = [[row[variant] for variant in VARIANTS] for row in units.values()]
        mean = statistics.fmean(statistics.fmean(row) for row in table)
        assert report[f"jga_v1_5{suffix}"] == pytest.approx(mean, abs=1e-9)
        ratios = [
            statistics.stdev(row) / statistics.fmean(row) for row in table if any(row)
        ]
        assert report[f"ss_jga{suffix}"] == pytest.approx(statistics.fmean(ratios))
        everything = sum(ratios) / len(table)
        assert report[f"ss_jga_all_frames{suffix}"] == pytest.approx(everything)
        assert len(ratios) < len(table)
    for wording in references:
        mean = statistics.fmean(row[wording] for row in rows[""].values())
        got = report["per_variant"][wording]["#ALL_SERVICES"]["joint_goal_accuracy"]
        assert got == pytest.approx(mean, abs=1e-9)
        if wording == "original":
            assert report["jga_orig"] == pytest.approx(mean, abs=1e-9)
    assert report["frames"] == len(rows[""]) > 200
    assert "ddof 1" in report["about"]["definitions"]["ss_jga"]
    printed = capsys.readouterr().out
    assert f"{100 * report['ss_jga']:.1f}" in printed and "SS all" in printed
    unit = "turns" if options else "frames"
    assert f"{len(rows[''])} {unit} scored" in printed


def test_perfect_predictions_have_no_sensitivity(data_dir, references, tmp_path):
    for wording, dialogues in references.items():
        put(tmp_path / "p" / wording, dialogues)
    assert evaluate("sgdx", data_dir, tmp_path / "p", tmp_path / "m.json") == 0
    report = json.loads((tmp_path / "m.json").read_text())
    assert report["jga_orig"] == report["jga_v1_5"] == report["jga_v1_5_unseen"] == 1.0
    assert report["ss_jga"] == report["ss_jga_seen"] == report["ss_jga_unseen"] == 0.0


def test_predictions_in_the_words_of_another_schema(
    data_dir, predictions, tmp_path, capsys
):
    output = tmp_path / "m.json"
    assert evaluate("sgd", data_dir, predictions / "v1", output) == 1
    message = capsys.readouterr().err
    assert message.startswith("jaxaug: error: ")
    assert "field 'services'" in message and "check --variant" in message
    assert len(message.splitlines()) == 1
    assert not output.exists()


def test_generated_variants_replace_missing_ones_of_sgdx(
    data_dir, predictions, tmp_path
):
    (tmp_path / "data/variants").mkdir(parents=True)
    for split in ("train", "dev", "test"):
        (tmp_path / "data" / split).symlink_to(Path(data_dir).resolve() / split)
    made = tmp_path / "data/variants/made"
    made.symlink_to(Path(data_dir).resolve() / "sgd_x/data")
    reports = []
    for folder in (data_dir, tmp_path / "data"):
        assert evaluate("sgdx", folder, predictions, tmp_path / "m.json") == 0
        reports.append(json.loads((tmp_path / "m.json").read_text()))
    assert reports[0] == reports[1] and reports[0]["ss_jga"] > 0


def test_a_missing_variant_folder(data_dir, predictions, tmp_path, capsys):
    shutil.copytree(predictions, tmp_path / "p")
    shutil.rmtree(tmp_path / "p" / "v3")
    shutil.rmtree(tmp_path / "p" / "original")
    assert evaluate("sgdx", data_dir, tmp_path / "p", tmp_path / "m.json") == 1
    message = capsys.readouterr().err
    assert "lacks original, v3: SGD-X needs the folders original, v1, v2" in message


def test_an_output_that_cannot_be_written(data_dir, predictions, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    output = tmp_path / "file" / "m.json"
    assert evaluate("sgd", data_dir, predictions / "original", output) == 1
    message = capsys.readouterr().err
    assert "jaxaug: error: " in message and "file" in message
