"""The built-in lexicon, WordNet files, and word forms."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.augment.language import inflection, lexicon
from jaxaug.core.errors import UserError

INSTALLED = Path("/usr/share/wordnet")


@pytest.mark.parametrize(
    "base, pos, form, written",
    [
        ("price", "n", "plural", "prices"),
        ("city", "n", "plural", "cities"),
        ("day", "n", "plural", "days"),
        ("address", "n", "plural", "addresses"),
        ("phone number", "n", "plural", "phone numbers"),
        ("child", "n", "plural", "children"),
        ("look up", "v", "third", "looks up"),
        ("look up", "v", "gerund", "looking up"),
        ("stop", "v", "gerund", "stopping"),
        ("visit", "v", "gerund", "visiting"),
        ("transfer", "v", "past", "transferred"),
        ("offer", "v", "past", "offered"),
        ("reserve", "v", "gerund", "reserving"),
        ("see", "v", "gerund", "seeing"),
        ("die", "v", "gerund", "dying"),
        ("try", "v", "past", "tried"),
        ("choose", "v", "past", "chose"),
        ("choose", "v", "participle", "chosen"),
        ("buy", "v", "participle", "bought"),
        ("big", "a", "comparative", "bigger"),
        ("busy", "a", "superlative", "busiest"),
        ("expensive", "a", "comparative", "more expensive"),
        ("good", "a", "superlative", "best"),
        ("often", "r", "base", "often"),
    ],
)
def test_forms_there_and_back(base, pos, form, written):
    assert inflection.inflect(base, pos, form) == written
    if " " not in written and form != "base":
        assert (base, pos, form) in list(inflection.readings(written))


@given(
    st.sampled_from(lexicon.built_in().words),
    st.sampled_from(
        [("n", "plural"), *(("v", f) for f in ("third", "past", "gerund"))]
    ),
)
def test_every_form_can_be_read_back(base, form):
    written = inflection.inflect(base, *form)
    assert inflection.Form(base, *form) in list(inflection.readings(written))


@pytest.mark.parametrize(
    "word, before, expected",
    [
        ("prices", None, ("costs", "charges")),
        ("Destination", None, ("end point",)),
        ("booked", None, ("reserved",)),
        # Noun or verb: the previous word decides.
        ("book", "to", ("reserve",)),
        ("book", "Please", ("reserve",)),
        ("visits", "the", ("stops", "stays")),
        ("visit", "to", ("tour",)),
        # `chosen` and `chose` are both `selected`, so the form is ambiguous.
        ("selected", "the", ("picked",)),
        ("chose", "I", ("selected", "picked")),
        ("bigger", None, ("larger", "huger")),
        ("tabloid", None, ()),
        ("the", None, ()),
    ],
)
def test_synonyms_have_the_form_of_the_word(word, before, expected):
    found = lexicon.synonyms(word, lexicon.built_in(), before)
    assert set(expected) <= set(found) and bool(expected) == bool(found)
    assert word.lower() not in found
    if word == "selected":
        assert not {"chose", "chosen"} & set(found)
    if before == "to":
        assert not {"stop", "stay"} & set(found)


def test_the_file_is_in_order():
    path = Path(lexicon.__file__).parent / "lexicon.txt"
    lines = [line for line in path.read_text("utf-8").splitlines() if line[0] != "#"]
    assert len(lines) > 800 and len(set(lines)) == len(lines)
    for line in lines:
        pos, *words = line.split(" ")
        assert pos in "nvaro" and len(words) > 1 and len(set(words)) == len(words), line
        assert all(word == word.lower() and word.strip("_") == word for word in words)


# A WordNet of six synsets, in its own format.
LICENCE = "  1 This is the licence of a database for tests.  \n"
SYNSETS = {
    "noun": ["03 n 02 price 0 cost 0", "03 n 03 price 0 damage 2 terms 0"],
    "verb": ["31 v 02 reserve 0 book 1", "31 v 02 look_up 0 find 0"],
    "adj": ["00 s 02 cheap(a) 0 Inexpensive 0"],
    "adv": ["02 r 01 often 0"],
}


@pytest.fixture
def folder(tmp_path):
    for kind, synsets in SYNSETS.items():
        data, index = LICENCE, {}
        for synset in synsets:
            offset = len(data)
            data += f"{offset:08d} {synset} 000 | a gloss\n"
            for word in synset.split()[3::2]:
                index.setdefault(word.partition("(")[0].lower(), []).append(offset)
        lines = [
            f"{word} {kind[0]} {len(o)} 1 @ {len(o)} 0 "
            + " ".join(f"{offset:08d}" for offset in o)
            + "  \n"
            for word, o in sorted(index.items())
        ]
        (tmp_path / f"data.{kind}").write_text(data)
        (tmp_path / f"index.{kind}").write_text(LICENCE + "".join(lines))
    return tmp_path


def test_wordnet_files_are_read(folder):
    words = lexicon.load(folder)
    assert isinstance(words, lexicon.WordNet) and lexicon.load(folder) is words
    assert words.lookup("price") == {"n": ("cost", "damage", "terms")}
    assert words.lookup("look up") == {"v": ("find",)}
    assert words.lookup("inexpensive") == {"a": ("cheap",)}
    assert words.lookup("often") == {} == words.lookup("unknown")
    assert lexicon.synonyms("prices", words) == ("costs", "damages", "termses")
    assert lexicon.synonyms("booking", words) == ("reserving",)
    assert lexicon.synonyms("found", words) == ("looked up",)


def test_words_that_share_a_synset(folder):
    words = lexicon.WordNet(folder)
    assert words.shared("price") == {"price", "cost", "damage", "terms"}
    # A form is reduced to its base, an exception by the file of exceptions.
    assert words.shared("prices") == words.shared("price")
    assert words.shared("unknown") == words.shared("prix") == set()
    (folder / "noun.exc").write_text("prix price\n")
    assert lexicon.WordNet(folder).shared("prix") == words.shared("price")
    # Nouns only: `price` is not looked up as another part of speech.
    (folder / "adj.exc").write_text("prixer price\n")
    assert lexicon.WordNet(folder).shared("prixer") == set()


def test_wrong_wordnet_folders_are_named(folder, tmp_path):
    with pytest.raises(
        UserError, match=r"no WordNet in .*index.noun is missing.*Debian"
    ):
        lexicon.load(tmp_path / "none")
    (folder / "index.verb").write_text("book v\n")
    with pytest.raises(
        UserError, match=r"index.verb, line 1: is not a line of a WordNet"
    ):
        lexicon.WordNet(folder).lookup("price")
    (folder / "index.verb").write_text("book v 1 0 1 0 00000007\n")
    with pytest.raises(UserError, match=r"data.verb: no synset at byte 7"):
        lexicon.WordNet(folder).lookup("book")


@pytest.mark.skipif(not INSTALLED.exists(), reason="Debian's wordnet-base is not there")
def test_the_wordnet_of_debian():
    words = lexicon.load(INSTALLED)
    assert "reservation" in words.lookup("booking")["n"]
    assert {"purchasing"} <= set(lexicon.synonyms("buying", words))
