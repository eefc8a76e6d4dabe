"""Feature lengths and vocabularies, compared with the data."""

import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.feed import lengths
from jaxaug.feed.tokens import Examples, TokenCache


def counts(inputs, targets=(5,), name="d3st_sgd train", unknown=0):
    found = {"inputs": np.array(inputs), "targets": np.array(targets)}
    return lengths.TokenCounts(name, found, unknown, "words.model", lengths.LEFT)


LIMITS = {"inputs": 160, "targets": 32}
MANY = [100] * 99


def test_counts_of_a_token_cache():
    flat = np.array([7, 2, 7, 7, 2, 2], np.int32)
    cache = TokenCache(
        "cache",
        {"inputs": flat, "targets": flat},
        {"inputs": np.array([0, 6, 6, 6]), "targets": np.array([0, 1, 2, 6])},
    )
    found = Examples("task", cache)
    made = lengths.of_examples("a", found, 2, "words.model", lengths.LEFT)
    assert made.lengths["inputs"].tolist() == [7, 1, 1]
    assert made.lengths["targets"].tolist() == [2, 2, 5]
    # Two targets have unknown pieces, one of them twice.
    assert made.unknown == 2
    made = lengths.of_examples("a", found, None, "words.model", lengths.LEFT)
    assert made.unknown == 0


@pytest.mark.parametrize(
    ("longest", "bucket"),
    [(1, 16), (17, 32), (160, 160), (161, 176), (257, 288), (700, 704), (1227, 1280)],
)
def test_fitting_lengths_are_buckets(longest, bucket):
    found = lengths.fitting([counts([3, longest]), counts([2], [20])])
    assert found == {"inputs": bucket, "targets": 32}
    assert bucket <= max(longest * 9 / 8, longest + 15)


def test_one_input_in_a_hundred_may_be_cut():
    lengths.check([(counts([*MANY, 161]), LIMITS)])
    with pytest.raises(UserError, match=r"2 of 100 inputs \(2\.0%\) exceed 160 tokens"):
        lengths.check([(counts([*MANY[1:], 161, 900]), LIMITS)])


def test_no_target_may_be_cut():
    lengths.check([(counts(MANY, [32] * 5000), LIMITS)])
    with pytest.raises(
        UserError, match=r"1 of 5,000 targets \(under 0\.1%\) exceed 32"
    ):
        lengths.check([(counts(MANY, [*[32] * 4999, 33]), LIMITS)])


def test_every_data_set_counts_by_itself():
    """A large training set does not hide the truncated inputs of a test set."""
    train = counts([100] * 100_000)
    test = counts([*MANY[1:], 161, 700], [40], "d3st_sgdx_v5 test")
    with pytest.raises(UserError) as caught:
        # The test set is evaluated twice, and named once.
        lengths.check(
            [(train, LIMITS), (test, LIMITS), (test, LIMITS)],
            advice='--gin.LENGTHS="{}"',
        )
    assert str(caught.value) == (
        "The feature lengths {'inputs': 160, 'targets': 32} would cut too many "
        "examples of d3st_sgdx_v5 test:\n"
        "  d3st_sgdx_v5 test: 2 of 100 inputs (2.0%) exceed 160 tokens (longest: 700), "
        "1 of 1 targets (100.0%) exceed 32 tokens (longest: 40)\n"
        "At most 1% of the inputs and no target of a data set may be cut (inputs lose "
        "their left end, targets lose their right end). Lengths that cut nothing:\n"
        "  --gin.LENGTHS=\"{'inputs': 704, 'targets': 48}\""
    )
    fitting = {"inputs": 704, "targets": 48}
    lengths.check([(train, fitting), (test, fitting)])


def test_a_cut_can_be_accepted_and_lengths_left_open():
    lengths.check([(counts([700], [90]), LIMITS)], accept_truncation=True)
    lengths.check([(counts([700], [90]), {"inputs": None, "targets": 90})])


def test_vocabularies_that_cannot_write_the_targets(caplog):
    few = counts([5], [5] * 200, unknown=2)
    lengths.check([(few, LIMITS)])
    assert (
        "2 of 200 targets of d3st_sgd train (1.0%) contain pieces that the vocabulary "
        "lacks (words.model)."
    ) in caplog.text
    many = counts([5], [5] * 200, unknown=3)
    lengths.check([(many, LIMITS)], accept_unknown=True)
    with pytest.raises(
        UserError,
        match=r"^3 of 200 targets of d3st_sgd train \(1\.5%\) contain pieces that the "
        r"vocabulary lacks\.\nNo model with the vocabulary words\.model can write them",
    ):
        # Accepted lengths do not make a vocabulary fit.
        lengths.check([(many, LIMITS)], accept_truncation=True)
