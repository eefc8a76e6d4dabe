"""Lines of labelled sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.core.errors import UserError
from jaxaug.data.labelled import Sentence, parse_line

WORDS = st.text(
    st.characters(exclude_characters="\t\r\n", exclude_categories=["Cs"]), min_size=1
).filter(str.strip)


@given(WORDS, WORDS)
def test_label_and_text(text, label):
    assert parse_line(f"{label}\t{text}", "here") == Sentence(text, label)


@pytest.mark.parametrize("text", ["", " ", "a\tb", "a\nb", "a\r"])
def test_what_cannot_stand_in_a_line(text):
    with pytest.raises(UserError, match="^here: .* Write one sentence a line"):
        parse_line(f"6\t{text}", "here")


def test_the_place_is_named():
    with pytest.raises(UserError, match="^f.txt: line 3: there is no tab: '6 a'"):
        parse_line("6 a", "f.txt: line 3")
