"""The file of levels, and readers of the files that PCC's authors released."""

import collections
import json

import pytest

from jaxaug.core.errors import UserError
from jaxaug.curriculum import levels

ITEM = levels.Levelled("a b ", (("a b ",), ("a c",), (), ("d", "e")))
HUFFPOST = ["s0_b", "s1", "s2_b", "s3_b", "s4_b"]


def test_an_empty_level_falls_back_to_the_next_easier_one():
    assert ITEM.at(1) == ITEM.at(2) == ("a c",)
    assert ITEM.at(3) == ("d", "e")
    alone = levels.levelled("a", [], [])
    assert [alone.at(level) for level in range(6)] == [("a",)] * 6


def test_a_level_that_does_not_exist_is_refused():
    for level in (-1, 4):
        with pytest.raises(UserError, match=f"has levels 0 to 3, not {level}"):
            ITEM.at(level)


def test_paraphrases_are_sorted_into_levels_most_similar_first():
    found = levels.levelled("a", ["w", "x", "y", "z"], [0.1, 0.4, 0.3, 0.2], 2)
    assert found.levels == (("a",), ("x", "y"), ("z", "w"))


def test_written_levels_are_read(tmp_path):
    other = levels.Levelled("ü\u2028", (("ü\u2028",), (), ("x",), ()))
    levels.write(tmp_path / "f.jsonl", [ITEM, other])
    assert levels.read(tmp_path / "f.jsonl") == [ITEM, other]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "holds no text. Write it again with `jaxaug levels`"),
        (["{"], "line 1: expected an object with a text and lists"),
        (['{"text": "a"}'], "line 1: expected an object"),
        (['{"text": "a", "levels": [["b"], [1]]}'], "line 1: expected an object"),
        (["[" * 100_000], r"line 1: expected an object .*, got '\[+\.\.\.\. Write"),
        (['{"text": %s}' % ("1" * 5000)], "line 1: expected an object"),
        (['{"text": "a", "levels": [["\\ud800"]]}'],
         r"line 1: a string holds \\ud800, half of a surrogate pair. Write it again"),
        (['{"text": "a", "levels": []}'] * 2, "line 2: 'a' comes twice"),
        (['{"text": "a", "levels": [[]]}', '{"text": "b", "levels": []}'],
         "line 2: 0 levels, the first line has 1"),
    ],
)  # fmt: skip
def test_damaged_files_are_refused(tmp_path, lines, message):
    path = tmp_path / "f.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(UserError, match=message):
        levels.read(path)


def test_a_line_is_split_once_from_the_left_and_twice_from_the_right(tmp_path):
    path = tmp_path / "aug.txt"
    path.write_text("a b  $ pay 5 $ now $ 0 $ 0.7\na b  $ x $ 1 $ -0.2\n")
    assert levels.scored_huffpost(path) == {
        "a b ": [("pay 5 $ now", False, 0.7), ("x", True, -0.2)]
    }
    (found,) = levels.released_huffpost(path, 2)
    assert found.levels == (("a b ",), ("pay 5 $ now",), ("x",))


@pytest.mark.parametrize("line", ["a $ b $ 1", "a $ b $ 2 $ 0.1", "a $ b $ 1 $ x"])
def test_a_damaged_line_of_huffpost_is_refused(tmp_path, line):
    path = tmp_path / "aug.txt"
    path.write_text(f"a $ b $ 1 $ 0.5\n{line}\n")
    with pytest.raises(UserError, match=r"aug.txt: line 2: expected `original \$ "):
        levels.released_huffpost(path)


def test_huffpost_as_released(real_data):
    separators = 0
    for name in HUFFPOST:
        path = real_data / "text" / "pcc" / f"aug_huff_train_{name}.txt"
        lines = path.read_text().splitlines()
        separators += sum(line.count(" $ ") > 3 for line in lines)
        scored = levels.scored_huffpost(path)
        sizes = collections.Counter(len(items) for items in scored.values())
        assert sum(map(len, scored.values())) == len(lines)
        if name == "s1":
            assert len(scored) == 409
            assert (min(sizes), max(sizes)) == (2, 40)
        else:
            assert sizes == {20: 410}
        # The filter of equation 3 is already applied.
        assert all(
            item.implied or item.similarity >= 0.5
            for items in scored.values()
            for item in items
        )
        found = levels.released_huffpost(path)
        assert [item.text for item in found] == list(scored)
        for item in found:
            assert all(item.at(level) for level in range(6))
            if len(scored[item.text]) == 20:
                assert [len(texts) for texts in item.levels] == [1, 4, 4, 4, 4, 4]
        assert any(item.text.endswith(" ") for item in found)
    assert separators == 17


def test_persona_as_released(real_data):
    path = real_data / "text" / "pcc" / "persona_paraphrases.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [bool(r.get("truncated")) for r in records] == [False] * 2692 + [True]
    found = levels.released_persona(path)
    assert [item.text for item in found] == [r["trait"] for r in records[:-1]]
    sizes = collections.Counter(
        tuple(len(texts) for texts in item.levels) for item in found
    )
    assert sizes[1, 4, 4, 4, 4, 4] == 2692 - 4
    assert sum(sizes.values()) == 2692
    first = found[0]
    assert first.text == "i like to remodel homes."
    assert first.levels[1][:2] == (
        "i like to remodel houses.",
        "I like to remodel houses.",
    )
    assert first.levels[5][-1] == (
        "Its not all about the money, but it's about the quality of our homes."
    )


def copied(text: str, paraphrases) -> list[bool]:
    """Returns whether each output starts with the first word of the text."""
    first = text.lower().split()[0]
    return [one.text.lower().split()[:1] == [first] for one in paraphrases]


def test_the_last_four_of_twenty_released_come_from_bottom_k(real_data):
    """The few-shot method takes its `places` and beta from them."""
    folder, shares = real_data / "text" / "pcc", {}
    files = {path.name[15:17]: path for path in folder.glob("aug_huff_train_s*.txt")}
    found = {seed: levels.scored_huffpost(path) for seed, path in files.items()}
    found["persona"] = levels.scored_persona(folder / "persona_paraphrases.jsonl")
    for name, of_text in found.items():
        items = [(t, own) for t, own in of_text.items() if len(own) == 20]
        first = [hit for t, own in items for hit in copied(t, own[:16])]
        last = [hit for t, own in items for hit in copied(t, own[16:])]
        shares[name] = [round(100 * sum(hits) / len(hits)) for hits in (first, last)]
        every = [one for own in of_text.values() for one in own]
        # Eq. 3 passes only implied or similar outputs: beta is 0.5.
        assert all(
            one.implied in (True, None) or one.similarity >= 0.5 for one in every
        )
    assert shares == {
        "s0": [45, 6], "s1": [43, 42], "s2": [43, 7], "s3": [43, 6], "s4": [43, 6],
        "persona": [60, 5],
    }  # fmt: skip


def test_a_damaged_line_of_persona_is_refused(tmp_path):
    path = tmp_path / "p.jsonl"
    good = {"trait": "a", "paraphrases": [{"text": " b ", "score": 0.5}]}
    bad = {"trait": "a", "paraphrases": [{"text": "b", "score": None}]}
    path.write_text(json.dumps(good) + "\n")
    assert levels.released_persona(path, 1) == [levels.Levelled("a", (("a",), ("b",)))]
    huge = json.dumps(bad).replace("null", "1" + "0" * 400)
    for line in (json.dumps(bad), huge, "[" * 100_000):
        path.write_text(json.dumps(good) + "\n" + line + "\n")
        with pytest.raises(
            UserError, match=r"p.jsonl: line 2: expected an object with a"
        ):
            levels.released_persona(path)
