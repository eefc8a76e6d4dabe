"""`jaxaug report` over seeds: intervals, differences, the page, and the CSV files."""

import base64
import csv
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.metrics import report, report_verb, statistics
from jaxaug.metrics.bootstrap import FIGURES
from jaxaug.metrics.dst import ALL_SERVICES, JGA
from jaxaug.metrics.frames import WORDINGS, FrameTable, write_frames
from jaxaug.metrics.sensitivity import GROUPS, VARIANTS, robustness


def model_folder(folder, right, seed=0, dialogues=30, split="test"):
    """Writes a run whose frames are right with chance `right`; v1..v5 get harder.

    The difficulty of a frame is the same for every run.
    """
    common, own = (
        np.random.default_rng(9),
        np.random.default_rng([seed, int(100 * right)]),
    )
    scores = {}
    for number, wording in enumerate(WORDINGS):
        groups = {group: {} for group in GROUPS}
        for dialogue in range(dialogues):
            for turn in (0, 2, 4):
                luck = (common.random() + 0.2 * own.random()) / 1.2
                value = float(luck < right - 0.05 * number)
                service = "Hotels_1" if dialogue % 3 else "Trains_1"
                key = f"1_{dialogue:05}", turn, service
                groups[""][key] = value
                groups["_seen" if dialogue % 3 else "_unseen"][key] = value
        scores[wording] = groups
    figures = robustness(scores)
    figures["per_variant"] = {
        name: {ALL_SERVICES: {JGA: np.mean(list(scores[name][""].values()))}}
        for name in VARIANTS
    }
    place = folder / "inference_eval" / "robustness" / "d3st-000007.json"
    place.parent.mkdir(parents=True)
    write_frames(place, FrameTable.of_scores(split, scores))
    place.write_text(json.dumps(figures))
    return str(folder)


@pytest.fixture
def runs(tmp_path):
    """Writes two configurations of three seeds, one of which is much better."""
    return [
        model_folder(tmp_path / f"{name}-seed{seed}", right, seed)
        for seed in range(3)
        for name, right in (("none", 0.5), ("tree", 0.8), ("eda", 0.79))
    ]


GOLDEN = """\
95% intervals from 500 resamples of the 30 dialogues, the same for every run, and of the seeds:
                 JGA_orig         v1         v2         v3         v4         v5  mean v1-5       seen     unseen           SS       SS all
none (3 seeds)  29.8-50.2  34.1-54.1  25.9-45.3  26.1-42.8  21.6-39.9  11.8-27.5  28.6-37.2  29.8-40.4  19.5-37.4  137.1-161.3  105.2-134.7
tree (3 seeds)  77.9-94.0  75.5-91.2  57.8-76.3  62.0-80.2  53.5-72.4  50.6-69.4  64.6-73.2  68.3-77.5  52.0-69.8    65.2-85.0    64.9-84.8
eda (3 seeds)   75.9-92.2  72.8-89.4  58.7-77.6  62.3-80.7  54.8-74.1  47.1-66.2  64.2-72.5  68.1-76.8  50.8-69.6    66.3-85.7    65.9-85.5

differences in points; p is of mean v1-5, corrected for 3 pairs (Holm), and a difference holds where p is below 0.05; *: the difference of this column holds in the same way:
                         mean v1-5        p               JGA_orig                   seen                 unseen                   SS
none - tree  -36.0 [-40.0, -32.0]*  <0.0001  -45.9 [-56.0, -35.9]*  -37.8 [-42.5, -33.1]*  -32.4 [-39.6, -25.3]*  +74.1 [62.9, 85.3]*
none - eda   -35.5 [-39.0, -32.0]*  <0.0001  -44.1 [-54.4, -33.7]*  -37.3 [-41.7, -32.9]*  -31.8 [-37.1, -26.4]*  +73.3 [61.1, 85.4]*
tree - eda        +0.5 [-1.5, 2.6]   0.6126       +1.9 [-2.9, 6.6]       +0.4 [-2.0, 2.9]       +0.7 [-3.7, 5.0]    -0.8 [-10.5, 8.8]

holds: tree > none (p <0.0001)
holds: eda > none (p <0.0001)
not shown: tree and eda differ (p 0.6126)
"""


def printed(capsys, *arguments):
    assert main(["report", *arguments, "--resamples", "500"]) == 0
    return capsys.readouterr().out


def test_the_printed_tables(runs, capsys):
    text = printed(capsys, *runs)
    table = text[text.index("\n\n95%") + 2 :]
    assert table == GOLDEN
    assert printed(capsys, *runs) == text


class Page(HTMLParser):
    """Collects cells of tables and sources of images; checks closing tags."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.images, self.open, self.links = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.links += [v for k, v in attrs if k in ("src", "href")]
        if tag == "img":
            self.images.append(attributes["src"])
        elif tag not in ("meta", "wbr"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += f"{data} " if "small" not in self.open else f"({data})"


def test_the_page_is_self_contained(runs, tmp_path, capsys):
    page, table = tmp_path / "o" / "all.html", tmp_path / "o" / "all.csv"
    out = printed(capsys, *runs, "--html", str(page), "--csv", str(table))
    assert f"written: {page}" in out
    parsed = Page(page.read_text(encoding="utf-8"))
    rows = {row[0].strip(): row[1:] for row in parsed.rows}
    lines = {row["name"]: row for row in csv.DictReader(table.open())}
    assert set(lines) < set(rows)
    place = list(report.COLUMNS).index("jga_v1_5")
    for name in ("none", "tree", "eda"):
        row = lines[f"{name} (mean of 3)"]
        value, std, low, high = (
            100 * float(row[f"jga_v1_5{end}"]) for end in ("", "_std", "_low", "_high")
        )
        assert low < value < high
        shown = f"{value:.1f} ± {std:.1f} ({low:.1f}-{high:.1f})"
        assert rows[f"{name} (mean of 3)"][place] == shown
        assert lines[f"{name}-seed1"]["jga_v1_5_low"] == ""
    differences = list(csv.DictReader((tmp_path / "o/all.differences.csv").open()))
    assert len(differences) == 3 * len(FIGURES)
    for line in differences:
        if line["figure"] != "jga_v1_5":
            assert float(line["p_holm"]) >= float(line["p"])
            continue
        first, second = (
            float(lines[f"{line[part]} (mean of 3)"]["jga_v1_5"])
            for part in ("first", "second")
        )
        assert float(line["difference"]) == pytest.approx(first - second)
        cells = rows[f"{line['first']} - {line['second']}"]
        assert cells[0].startswith(f"{100 * (first - second):+.1f} ([")
        assert cells[0].endswith("*)") == (float(line["p"]) < 0.05)
    # Nothing is loaded from elsewhere; the plots are in the page.
    assert parsed.links == parsed.images and len(parsed.images) == 2
    for image in parsed.images:
        head, _, data = image.partition(",")
        assert head == "data:image/svg+xml;base64"
        drawn = base64.b64decode(data).decode()
        assert "<svg" in drawn
        assert not re.search(r'(?:href|src)="(?!#)', drawn)
    assert "tree - eda" in base64.b64decode(parsed.images[1].partition(",")[2]).decode()


def test_the_page_fits_a_laptop(tmp_path, capsys, page):
    """Six pairs of runs with long names and all columns."""
    names = (
        "original",
        "tree_15x_consistency_weighted",
        "eda",
        "familiar_words_of_sgd",
    )
    found = [
        model_folder(tmp_path / f"d3st_{name}-seed{seed}", 0.5 + 0.1 * place, seed)
        for place, name in enumerate(names)
        for seed in (0, 1)
    ]
    printed(capsys, *found, "--html", str(tmp_path / "all.html"))
    page.set_viewport_size({"width": 1300, "height": 900})
    page.goto((tmp_path / "all.html").as_uri())
    assert page.locator("table").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth") <= 1300


def test_runs_without_scores_of_frames_are_named(runs, tmp_path, capsys):
    old = tmp_path / "tree-seed1/inference_eval/robustness/d3st-000007.frames.npz"
    old.unlink()
    page = tmp_path / "all.html"
    text = printed(capsys, *runs, "--html", str(page))
    note = f"note: no intervals for tree: {old.with_name('d3st-000007.json')} has no"
    assert note in text and "tree (mean of 3)" in text
    assert "none - eda" in text and "tree - " not in text
    assert "no intervals for tree" in page.read_text(encoding="utf-8")
    for path in tmp_path.rglob("*.npz"):
        path.unlink()
    text = printed(capsys, *runs, "--html", str(page))
    assert "note: no intervals for none, tree, eda: " in text and "95%" not in text
    assert len(Page(page.read_text(encoding="utf-8")).images) == 1


def test_one_seed_and_one_dialogue(tmp_path, capsys):
    one = model_folder(tmp_path / "a-seed0", 0.6)
    text = printed(capsys, one)
    assert "a (1 seed)" in text and "holds" not in text
    assert "note: a: one seed; its intervals cover the choice of dialogues" in text
    lone = [
        model_folder(tmp_path / name, right, dialogues=1)
        for name, right in (("b", 0.5), ("c", 0.9))
    ]
    text = printed(capsys, *lone, "--png", str(tmp_path / "a.png"))
    assert "note: no intervals from 1 dialogue: at least 2 are needed" in text
    assert "undefined: b and c" in text


def test_all_equal(tmp_path, capsys):
    runs = [model_folder(tmp_path / f"{name}-s{n}", 2) for name in "ab" for n in (0, 1)]
    text = printed(capsys, *runs)
    assert "not shown: a and b differ (p 1.0000)" in text
    # 30 dialogues may have missed 11.6% of others.
    assert "+0.0 [-11.6, 11.6]  1.0000" in text and "88.4-100.0" in text


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ({"split": "dev"}, "split 'test' and split 'dev'"),
        ({"dialogues": 29}, "30 and 29 dialogues; only one has '1_00029'"),
    ],
)
def test_different_test_sets(tmp_path, capsys, other, problem):
    one = model_folder(tmp_path / "a", 0.5)
    two = model_folder(tmp_path / "b", 0.5, **other)
    assert main(["report", one, two]) == 1
    out, error = capsys.readouterr()
    name = "inference_eval/robustness/d3st-000007.json"
    assert out == "" and error == (
        f"jaxaug: error: {one}/{name} and {two}/{name} were evaluated on different "
        f"test sets ({problem}). Compare runs that scored the same frames, or report "
        "these apart.\n"
    )


def test_scores_of_another_evaluation(tmp_path, capsys):
    one = model_folder(tmp_path / "a", 0.5)
    place = tmp_path / "a/inference_eval/robustness/d3st-000007.json"
    changed = json.loads(place.read_text()) | {"jga_orig": 0.125}
    place.write_text(json.dumps(changed))
    assert main(["report", one]) == 1
    message = capsys.readouterr().err
    assert "jga_orig is 0.125, but the scores of frames next to it give" in message


def test_names_of_runs(tmp_path, capsys):
    runs = [
        model_folder(tmp_path / folder / "a-seed0", right)
        for folder, right in (("x", 0.5), ("y", 0.9))
    ]
    rows = report_verb.read_all(runs)
    assert [row.name for row in rows] == ["x/a-seed0", "y/a-seed0"]
    assert "x/a - y/a" in printed(capsys, *runs)
    assert main(["report", runs[0], runs[0]]) == 1
    message = capsys.readouterr().err
    assert "d3st-000007.json is given 2 times. Give each run once" in message


def test_a_run_given_twice_by_another_path(tmp_path, capsys, monkeypatch):
    run = model_folder(tmp_path / "x y" / "a", 0.5)
    monkeypatch.chdir(run)
    assert main(["report", ".", "../../x y/a"]) == 1
    assert "is given 2 times" in capsys.readouterr().err
    assert "\na (1 seed)" in printed(capsys, ".")


def test_seeds_of_two_experiments_stay_together(tmp_path, capsys):
    runs = [
        model_folder(tmp_path / folder / f"A-seed{seed}", right, seed)
        for folder, right, seeds in (("one", 0.5, 3), ("two", 0.8, 2))
        for seed in range(seeds)
    ]
    text = printed(capsys, *runs)
    assert "one/A (3 seeds)" in text and "two/A (2 seeds)" in text
    assert "one/A - two/A" in text and text.count(" - ") == 1


def test_seeds_may_be_folders(tmp_path, capsys):
    for name, right in (("X", 0.5), ("Y", 0.8)):
        for seed in (0, 1):
            model_folder(tmp_path / f"{name}-seed{seed}" / "eval", right, seed)
            model_folder(tmp_path / name / f"seed{seed}", right, seed)
    runs = [f"{tmp_path}/{n}-seed{s}/eval" for n in "XY" for s in (0, 1)]
    text = printed(capsys, *runs)
    assert "X/eval (2 seeds)" in text and "X/eval - Y/eval" in text
    runs = [f"{tmp_path}/{n}/seed{s}" for n in "XY" for s in (0, 1)]
    text = printed(capsys, *runs)
    assert "X (2 seeds)" in text and "X - Y" in text
    assert "\nX (2 seeds)" in printed(capsys, *runs[:2])


@pytest.mark.parametrize("rule", ["exact", "joint_across_turn"])
def test_other_rules_of_scoring(tmp_path, capsys, rule):
    one, two = (model_folder(tmp_path / name, 0.5) for name in "ab")
    place = tmp_path / "b/inference_eval/robustness/d3st-000007.json"
    told = json.loads(place.read_text()) | {"about": {rule: True}}
    place.write_text(json.dumps(told))
    assert main(["report", one, two]) == 1
    assert f"was scored by default and {place} with --{rule}. Compare runs" in (
        capsys.readouterr().err
    )


def test_no_differences_of_an_earlier_comparison_are_left(runs, tmp_path, capsys):
    table = tmp_path / "t.csv"
    printed(capsys, *runs, "--csv", str(table))
    assert (tmp_path / "t.differences.csv").exists()
    printed(capsys, runs[0], "--csv", str(table))
    assert not (tmp_path / "t.differences.csv").exists()


def test_configurations_keep_the_order_of_the_runs():
    figures = dict.fromkeys(report.COLUMNS, 0.5)
    names = ["b-seed0", "a", "b-seed1", "c-seed0"]
    runs = [report.Run(name, figures, {}) for name in names]
    rows = report.configurations([*runs, *report.aggregate_seeds(runs)])
    assert [row.name for row in rows] == ["b (mean of 2)", "a", "c-seed0"]


def test_cells():
    assert statistics.p_cell(math.nan) == "NA"
    assert (
        statistics.p_cell(0.00009) == "<0.0001" and statistics.p_cell(0.05) == "0.0500"
    )
    with pytest.raises(UserError):
        report_verb.read_all(["nowhere"])
