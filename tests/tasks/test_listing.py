"""`jaxaug tasks --all`: tasks outside the table, and tasks of SeqIO."""

import pytest

from jaxaug.cli import main

seqio = pytest.importorskip("seqio")


def test_tasks_and_rates_of_others(sgd_tree, monkeypatch, capsys):
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(sgd_tree))
    assert main(["tasks", "personachat_[or]*", "--all"]) == 0
    out = capsys.readouterr().out
    assert (
        out
        == f"""\
data folder {sgd_tree}

task                        train  validation  test  of
personachat_other_original      ?           ?     -  other
personachat_other_revised       ?           ?     -  other
personachat_rt_level1           ?           -     -  other

mixture               share of each task
personachat_official  20.0% personachat_self_original; 80.0% personachat_self_revised
personachat_rt        80.0% personachat_rt_level1; 20.0% personachat_self_original

other tasks are not counted: a split is made when it is read
"""
    )
    # Tasks in the table are listed from the table.
    assert main(["tasks", "t5dst_sgd", "--all"]) == 0
    assert "T5DST: original schemas" in capsys.readouterr().out


def test_a_task_without_splits_is_listed(sgd_tree, monkeypatch, capsys):
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(sgd_tree))
    tasks = {**seqio.TaskRegistry._REGISTRY}
    monkeypatch.setattr(seqio.TaskRegistry, "_REGISTRY", tasks)
    source = seqio.FunctionDataSource(lambda split, shuffle_files: None, [])
    seqio.TaskRegistry.add("lonely", source=source, output_features={})
    assert main(["tasks", "lonely", "--all"]) == 0
    (line,) = [x for x in capsys.readouterr().out.splitlines() if "lonely" in x]
    assert line.split() == ["lonely", "-", "-", "-", "other"]
