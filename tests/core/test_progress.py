"""Progress: bars on a terminal, lines in a log."""

import io
import re
import sys

import pytest

from jaxaug.core import progress, shards
from jaxaug.core.shards import Shards, Stage


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def log(monkeypatch, capsys):
    """Returns a function that reads a stderr without terminal; each step is a line."""
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    return lambda: capsys.readouterr().err


def steps(text):
    """Returns (stage, done, total) of each line."""
    found = re.findall(r"(.*): (\d+)/(\d+), \d\d:\d\d gone, \S+ left, .*\n", text)
    assert len(found) == text.count("\n") and "\r" not in text
    return [(what, int(done), int(of)) for what, done, of in found]


def test_lines_in_a_log(log):
    assert list(progress.progress(range(3), desc="work", unit="file")) == [0, 1, 2]
    assert steps(log()) == [("work", done, 3) for done in range(4)]


def test_an_unknown_end_is_not_estimated(log):
    list(progress.progress(iter("abc"), desc="work", unit="ex"))
    *_, last = log().splitlines()
    assert re.fullmatch(r"work: 3ex, \d\d:\d\d gone, \S+ex/s", last)


def test_short_work_is_not_in_a_log(log, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 30.0)
    list(progress.progress(range(3), desc="work", unit="file"))
    assert log() == ""
    with progress.progress(desc="work", unit="line", total=5, last=True) as bar:
        bar.update(2)
    assert steps(log()) == [("work", 2, 5)]


def test_a_bar_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    list(progress.progress(range(3), desc="work", unit="file"))
    assert "work: 100%" in terminal.getvalue() and "\r" in terminal.getvalue()


def test_shards_tell_the_time_left_for_all_stages(log, tmp_path, monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(shards.time, "monotonic", lambda: 30 * next(clock))
    work = Shards(tmp_path, 2)
    work.plan([("first", 4), ("second", 6)])
    work.run(Stage("first", 1, list, "one"), [1, 2, 3, 4])
    # A shard takes 30 s: one of this stage and three of the next, then three alone.
    left = r"whole command (\d\d:\d\d) left\n"
    assert re.findall(left, log()) == ["02:00", "01:30"]
    work.run(Stage("second", 1, list, "two"), [1, 2, 3, 4, 5, 6])
    assert "whole command" not in log()
    # Cached shards take no time and print nothing.
    work.plan([("first", 4), ("second", 6)])
    work.run(Stage("first", 1, list, "one"), [1, 2, 3, 4])
    assert "whole command" not in log()


def test_shards_are_counted_in_a_log(log, tmp_path):
    stage = Stage("s", 1, lambda items: [item * item for item in items], "candidates")
    assert Shards(tmp_path, 2).run(stage, [1, 2, 3]) == [1, 4, 9]
    assert ("candidates", 1, 2) in steps(log())
