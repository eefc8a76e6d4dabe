"""Tables of robustness reports: reading, seeds, text, CSV, and PNG."""

import base64
import builtins
import contextlib
import csv
import html
import io
import json
import math
import os
import re

import pytest

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.core.figures import label
from jaxaug.metrics import report

JGA = "joint_goal_accuracy"


def robustness(scale=1.0, **changes):
    result = {
        "jga_orig": 0.8 * scale,
        "jga_v1_5": 0.6 * scale,
        "jga_v1_5_seen": 0.7 * scale,
        "jga_v1_5_unseen": None,
        "ss_jga": 0.45,
        "ss_jga_all_frames": 0.25,
        "per_variant": {
            f"v{n}": {"#ALL_SERVICES": {JGA: 0.1 * n * scale}} for n in range(1, 6)
        },
    }
    return result | changes


def model_folder(folder, family="d3st", **steps):
    place = folder / "inference_eval" / "robustness"
    place.mkdir(parents=True, exist_ok=True)
    for step, value in steps.items():
        path = place / f"{family}-{int(step[1:]):06d}.json"
        path.write_text(json.dumps(value))
    return folder


def test_text_table():
    runs = [
        report.Run.of_report("plain", robustness()),
        report.Run.of_report("augmented", robustness(0.5, ss_jga=1.239)),
    ]
    assert report.text_table(runs) == (
        "           JGA_orig    v1    v2    v3    v4    v5  mean v1-5  seen  unseen"
        "     SS  SS all\n"
        "plain          80.0  10.0  20.0  30.0  40.0  50.0       60.0  70.0      NA"
        "   45.0    25.0\n"
        "augmented      40.0   5.0  10.0  15.0  20.0  25.0       30.0  35.0      NA"
        "  123.9    25.0\n"
        "JGA and SS in per cent; SS: frames wrong under every wording left out, "
        "SS all: counted as 0"
    )


def test_seeds_of_one_name_are_joined():
    runs = [
        report.Run.of_report(name, robustness(scale))
        for name, scale in (("a_seed0", 1.0), ("a-s1", 0.5), ("b_seed0", 1.0))
    ]
    (joined,) = report.aggregate_seeds(runs)
    assert joined.name == "a (mean of 2)" and joined.seeds == 2
    assert joined.figures["jga_orig"] == pytest.approx(0.6)
    assert joined.deviations["jga_orig"] == pytest.approx(0.4 / math.sqrt(2))
    assert joined.deviations["ss_jga"] == 0.0
    line = report.text_table([joined]).splitlines()[1]
    assert line.startswith("a (mean of 2)  60.0 ± 28.3  7.5 ± 3.5")


@pytest.mark.parametrize(
    ("name", "base"),
    [("run_seed12", "run"), ("run-s1", "run"), ("runs1", "runs1"), ("s1", "s1")]
    + [("d3st", "d3st"), ("x_seed", "x_seed"), ("run.Seed-3", "run")]
    + [("d3st-steps500", "d3st-steps500"), ("lora-layers_12", "lora-layers_12")]
    + [("run-seed3/test", "run/test"), ("run/seed3", "run"), ("a-s1/b-s2", "a-s1/b")],
)
def test_seed_suffixes(name, base):
    twin = report.Run.of_report(name, robustness())
    (joined,) = report.aggregate_seeds([twin, twin])
    assert joined.name == f"{base} (mean of 2)"


def test_csv_keeps_full_precision():
    runs = [report.Run.of_report(f"a_s{n}", robustness(1 / (n + 1))) for n in range(3)]
    runs += report.aggregate_seeds(runs)
    rows = list(csv.DictReader(report.csv_table(runs).splitlines()))
    assert [row["name"] for row in rows] == ["a_s0", "a_s1", "a_s2", "a (mean of 3)"]
    assert float(rows[2]["jga_v1_5"]) == 0.6 / 3
    assert rows[0]["jga_v1_5_unseen"] == "" and rows[0]["jga_orig_std"] == ""
    assert float(rows[3]["jga_orig_std"]) == runs[3].deviations["jga_orig"]
    assert [row["runs"] for row in rows] == ["1", "1", "1", "3"]


def test_the_command_reads_the_newest_step_of_each_run(tmp_path, capsys):
    model_folder(tmp_path / "d3st_s0", s900=robustness(0.5), s1000=robustness())
    model_folder(tmp_path / "d3st_s1", s10=robustness(0.75))
    model_folder(tmp_path / "both", s1=robustness())
    model_folder(tmp_path / "both", "t5dst", s1=robustness(0.25))
    (tmp_path / "single.json").write_text(json.dumps(robustness(0.125)))
    names = ["d3st_s0", "d3st_s1", "both", "single.json"]
    out, picture = tmp_path / "t" / "all.csv", tmp_path / "t" / "all.png"
    runs = [str(tmp_path / name) for name in names]
    assert main(["report", *runs, "--csv", str(out), "--png", str(picture)]) == 0
    rows = {row["name"]: row for row in csv.DictReader(out.open())}
    assert list(rows) == [
        *("d3st_s0", "d3st_s1", "d3st both", "t5dst both", "single"),
        "d3st (mean of 2)",
    ]
    assert float(rows["d3st_s0"]["jga_orig"]) == 0.8
    assert float(rows["t5dst both"]["jga_orig"]) == 0.2
    assert float(rows["d3st (mean of 2)"]["jga_orig"]) == pytest.approx(0.7)
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "t5dst both" in printed and "70.0 ± 14.1" in printed
    assert sorted(path.name for path in out.parent.iterdir()) == ["all.csv", "all.png"]


def test_reports_of_a_later_evaluation_count_too(tmp_path):
    run = model_folder(tmp_path / "run", s4=robustness(0.5))
    model_folder(run / "eval", s3=robustness())
    (first,) = report.read_runs(run)
    model_folder(run / "eval", s5=robustness())
    (second,) = report.read_runs(run)
    assert (first.figures["jga_orig"], second.figures["jga_orig"]) == (0.4, 0.8)


def test_runs_without_a_report(tmp_path, capsys):
    assert main(["report", str(tmp_path / "none")]) == 1
    assert "none does not exist. Name a model folder" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 1
    message = capsys.readouterr().err
    assert "has no robustness report" in message and "RobustnessLogger" in message
    (tmp_path / "m.json").write_text('{"#ALL_SERVICES": {}}')
    assert main(["report", str(tmp_path / "m.json")]) == 1
    message = capsys.readouterr().err
    assert "m: no robustness report: 'jga_orig' is missing" in message


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"jga_orig": "0.8"}, "jga_orig is '0.8', expected a number or null"),
        ({"jga_orig": True}, "jga_orig is True, expected a number or null"),
        ({"jga_v1_5": [0.1]}, "jga_v1_5 is [0.1], expected a number or null"),
        ({"jga_orig": 55.2},
         "jga_orig is 55.2, expected a fraction from 0 to 1 (per c"),
        ({"ss_jga": 2.3}, "ss_jga is 2.3, expected a fraction from 0 to 2.236 (per ce"),
        ({"jga_v1_5_seen": -0.1},
         "jga_v1_5_seen is -0.1, expected a fraction from 0 t"),
        ({"per_variant": 3}, "no robustness report: 'v1' is missing"),
        ({"per_variant": {"v1": {"#ALL_SERVICES": [1]}}},
         f"no robustness report: {JGA!r} is missing"),
    ],
)  # fmt: skip
def test_a_report_with_other_values(tmp_path, capsys, changes, problem):
    (tmp_path / "m.json").write_text(json.dumps(robustness(**changes)))
    assert main(["report", str(tmp_path / "m.json")]) == 1
    out, error = capsys.readouterr()
    assert out == "" and error.startswith(f"jaxaug: error: m: {problem}")
    assert error.endswith(
        ". Give a JSON that `jaxaug evaluate sgdx` has written, or a model folder that "
        "has been evaluated.\n"
    )


def test_only_declared_wordings_may_be_absent(tmp_path, capsys):
    partial = robustness()
    del partial["per_variant"]["v3"]
    (tmp_path / "m.json").write_text(json.dumps(partial))
    assert main(["report", str(tmp_path / "m.json")]) == 1
    assert "m: no robustness report: 'v3' is missing." in capsys.readouterr().err
    partial["about"] = {"wordings_not_evaluated": ["v3"]}
    (tmp_path / "m.json").write_text(json.dumps(partial))
    assert main(["report", str(tmp_path / "m.json")]) == 0
    assert "m: not evaluated on v3: mean" in capsys.readouterr().out


def test_figures_at_their_limits():
    highest = report.Run.of_report("a", robustness(1.25, ss_jga=math.sqrt(5)))
    assert highest.figures["jga_orig"] == 1.0
    assert math.isnan(
        report.Run.of_report("a", robustness(ss_jga=math.nan)).figures["ss_jga"]
    )


def test_a_list_is_not_a_report(tmp_path, capsys):
    (tmp_path / "m.json").write_text("[]")
    assert main(["report", str(tmp_path / "m.json")]) == 1
    assert "m: no robustness report: 'jga_orig' is missing." in capsys.readouterr().err
    assert main(["report", "foo://run"]) == 1
    assert "foo:// is no storage that is known" in capsys.readouterr().err
    assert main(["report", str(tmp_path), "--png", "foo://a.png"]) == 1
    assert "foo://a.png: foo:// is no storage that" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "suffix"), [("a.xyz", ".xyz"), ("a", "")])
def test_no_ending_of_a_picture(tmp_path, capsys, name, suffix):
    run = model_folder(tmp_path / "run", s1=robustness())
    out, picture = tmp_path / "a.csv", tmp_path / name
    command = ["report", str(run), "--csv", str(out), "--png", str(picture)]
    assert main(command) == 1
    # Nothing is printed or written before the error.
    assert capsys.readouterr() == (
        "",
        (
            f"jaxaug: error: cannot draw {picture}: {suffix!r} is no ending of a "
            "picture. End the name in one of .png, .svg, .pdf, .jpg, .jpeg, .webp, "
            ".tif, .tiff, .eps, .ps.\n"
        ),
    )
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    with pytest.raises(UserError, match="is no ending of a picture"):
        report.write_png(picture, [report.Run.of_report("a", robustness())])


def test_a_missing_matplotlib_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    run = report.Run.of_report("a", robustness())
    with pytest.raises(
        UserError,
        match=r"is not installed. It comes with the extra 'report': run `make install",
    ):
        report.write_png(tmp_path / "a.png", [run])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("$x$y", "$x$y"),
        ("$\\frac{", "$\\frac{"),
        ("back\\slash", "back\\slash"),
        ("_run", "_run"),
        (os.fsdecode(b"caf\xe9"), "caf\\xe9"),
        ("new\nline", "new\\x0aline"),
    ],
)
def test_any_name_of_a_run_folder(tmp_path, name, printed):
    """The report prints, writes, and draws it; matplotlib parses no formula in it."""
    run = model_folder(tmp_path / name, s1=robustness())
    (run / "config.gin").write_text("x = 1\n")
    scores = run / "inference_eval/_task$-metrics.jsonl"
    scores.write_text('{"step": 1, "$a": 0.5}\n{"step": 2, "$a": 0.75}\n')
    places = {kind: tmp_path / f"o.{kind}" for kind in ("html", "csv", "png")}
    options = [
        text for kind, path in places.items() for text in (f"--{kind}", str(path))
    ]
    stdout = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(stdout):
        assert main(["report", *options, "--", str(run)]) == 0
    stdout.flush()
    assert f"\n{printed}  " in stdout.buffer.getvalue().decode().replace("    ", "")
    (row,) = csv.DictReader(places["csv"].open())
    assert row["name"] == printed
    page = places["html"].read_text()
    assert html.escape(printed) in page
    pictures = re.findall('base64,([^"]+)', page)
    drawn = "".join(base64.b64decode(one).decode() for one in pictures)
    assert f">{html.escape(label(printed), quote=False)}: SS" in drawn
    assert "> _task$<" in drawn and ">$a<" in drawn
