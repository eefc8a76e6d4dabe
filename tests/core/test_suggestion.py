import pytest

from jaxaug.core.suggestion import nearest, one_of, suggestion
from jaxaug.paraphrase.samplers import SAMPLERS


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("topk", "top_k_top_p"),
        ("top-k", "top_k_top_p"),
        ("bottomk", "bottom_k"),
        ("beam_search", "beam"),
        ("diverse", "diverse_beam"),
        ("GREEDY", "greedy"),
        ("greedi", "greedy"),
    ],
)
def test_the_nearest_name_is_suggested(name, near):
    assert suggestion(name, SAMPLERS) == f"did you mean {near!r}?"


def test_names_far_from_all_are_told_what_is_known():
    assert suggestion("zzz", ["b", "a"]) == "known: a, b."
    assert suggestion("zzz", map(str, range(13))).endswith("8, ...")
    assert suggestion("x", []) == "known: none."
    assert suggestion("x" * 10**6, ["a"]) == "known: a."


def test_one_of_lists_the_names_before_the_nearest():
    splits = ["train", "dev", "test"]
    message = "choose one of train, dev, test. Did you mean 'test'?"
    assert one_of("tst", splits, "choose") == message
    assert one_of(None, splits) == "use one of train, dev, test."
    assert nearest("x", splits) == ""
