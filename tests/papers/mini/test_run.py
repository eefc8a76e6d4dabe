"""`jaxaug invent`: generated data with their vocabulary, from the command line."""

import functools

import pytest
import sentencepiece

from jaxaug import cli
from jaxaug_papers import minisgd
from jaxaug_papers.mini import pretraining, run


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Makes MiniSGD and the data of the vocabulary small."""
    data = minisgd.write(
        tmp_path / "mini", train_dialogues=20, dev_dialogues=2, test_dialogues=2
    )
    monkeypatch.setattr(run.minisgd, "materialise", lambda cache: data)
    sizes = {"services": 20, "dialogues": 40, "exercises": 1, "seed": 9}
    write = functools.partial(pretraining.write, **sizes)
    monkeypatch.setattr(run, "_write_small", write)


def test_the_command_writes_world_and_vocabulary(small, tmp_path, capsys):
    folder = tmp_path / "a world"
    sizes = ["--services", "5", "--dialogues", "9", "--exercises", "7"]
    command = ["invent", "--out", str(folder), *sizes, "--pieces", "1500"]
    assert cli.main(command) == 0
    assert capsys.readouterr().out == f"wrote {folder}\n"
    names = {path.name for path in folder.iterdir()}
    assert names == {"train", "dev", "test", "exercises.tsv", "pieces.model"}
    model = sentencepiece.SentencePieceProcessor(str(folder / "pieces.model"))
    assert model.get_piece_size() == 1500
    assert len(model.encode("0=[user]")) == 2
    # A second run is refused and keeps the existing files.
    assert cli.main(command) == 1
    assert "exists" in capsys.readouterr().err
    assert (folder / "pieces.model").exists()


def test_a_vocabulary_too_small_for_its_characters(small, tmp_path, capsys):
    folder = tmp_path / "world"
    sizes = ["--services", "5", "--dialogues", "9", "--exercises", "7"]
    command = ["invent", "--out", str(folder), *sizes, "--pieces", "200"]
    assert cli.main(command) == 1
    error = capsys.readouterr().err
    assert "no vocabulary of 200 pieces can be made" in error
    assert "--pieces" in error
    assert not folder.exists()
