"""The model `minisgd`, which is trained in a checkout or in the working folder."""

import pytest

from jaxaug.core.errors import UserError
from jaxaug.models.text import registry


def test_minisgd_tells_how_to_train_it(tmp_path, monkeypatch):
    checkout, here = tmp_path / "check out", tmp_path / "here"
    (checkout / "configs").mkdir(parents=True)
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(registry, "_CHECKOUT", checkout)
    with pytest.raises(UserError) as error:
        registry.load("minisgd")
    assert str(error.value) == (
        "model 'minisgd' is not trained yet: there is no folder "
        f"{here}/runs/paraphrase_minisgd and no folder {checkout}/runs/"
        f"paraphrase_minisgd. Train it with `cd '{checkout}' && python -m t5x.train "
        "--gin_file=configs/paraphrase_minisgd.gin`, or name the folder of another run."
    )
    # A wheel has no such folder, and trains in any working folder.
    monkeypatch.setattr(registry, "_CHECKOUT", tmp_path)
    with pytest.raises(UserError) as error:
        registry.load("minisgd")
    assert str(error.value) == (
        "model 'minisgd' is not trained yet: there is no folder "
        f"{here}/runs/paraphrase_minisgd. Train it with `python -m t5x.train "
        "--gin_file=configs/paraphrase_minisgd.gin`, or name the folder of another run."
    )
    monkeypatch.setattr(registry, "_CHECKOUT", checkout)
    # Found in the checkout, but first in the current folder.
    for folder in (checkout, here):
        run_folder = folder / registry.MINISGD_RUN
        run_folder.mkdir(parents=True)
        with pytest.raises(UserError) as error:
            registry.load("minisgd")
        assert f"{run_folder}/config.gin: no such file." in str(error.value)
