import pytest

from jaxaug.core.errors import UserError
from jaxaug.data import sgd
from jaxaug.data.describe import Counts, count_split, describe

_TABLES = """\
split  services  seen  unseen  dialogues  turns  frames  slots  categorical  intents
-----  --------  ----  ------  ---------  -----  ------  -----  -----------  -------
train         1     1       0          2      6       4      3            1        2
dev           2     1       1          2      5       4      5            2        3
test          2     1       1          2      5       4      5            2        3

split  service   in train  dialogues  turns  frames  slots  categorical  intents
-----  --------  --------  ---------  -----  ------  -----  -----------  -------
train  Trains_1  seen              2      6       4      3            1        2
dev    Parks_1   unseen            1      2       1      2            1        1
dev    Trains_1  seen              2      4       3      3            1        2
test   Parks_1   unseen            1      2       1      2            1        1
test   Trains_1  seen              2      4       3      3            1        2

variants  variant  splits
--------  -------  ----------------
sgdx      v1       train, dev, test
sgdx      v2       train, dev, test
sgdx      v3       train, dev, test
sgdx      v4       train, dev, test
sgdx      v5       train, dev, test

"""


def test_tables(sgd_tree):
    text = describe(sgd_tree)
    assert text.startswith(f"{sgd_tree}\n\n{_TABLES}")


def test_without_variants(sgd_tree):
    (sgd_tree / "sgd_x").rename(sgd_tree / "away")
    assert "\n\nno schema variants\n\n" in describe(sgd_tree)


def test_incomplete_folder_is_known_before_reading(sgd_tree):
    (sgd_tree / "train/dialogues_001.json").write_text("broken")
    (sgd_tree / "test/schema.json").unlink()
    with pytest.raises(UserError, match=r"incomplete: .*test/schema\.json is missing"):
        describe(sgd_tree)


def test_real_dev(real_data):
    folder = real_data / "sgd"
    counts = count_split(folder, "dev", sgd.read_schema_of(folder, "train"))
    assert counts[0] == Counts(
        split="dev", service=None, seen=9, services=17, dialogues=2098, turns=38768,
        frames=20542, slots=136, categorical=36, intents=30,
    )  # fmt: skip
    assert [c.service for c in counts[1:4]] == ["Alarm_1", "Banks_2", "Buses_1"]
    assert sum(c.frames for c in counts[1:]) == 20542
