"""Labelled sentences as lines of text: `label<TAB>sentence`."""

from dataclasses import dataclass

from jaxaug.core.errors import UserError
from jaxaug.core.files import shown

_FIX = "Write one sentence a line as `label<TAB>sentence`, lines ended by a line feed."


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a class.

    Attributes:
      text: as it stands in the file; spaces at its end are part of it.
      label: any text without a tab, such as `6`.
    """

    text: str
    label: str


def parse_line(line: str, where: str) -> Sentence:
    """The sentence of a line.

    Args:
      line: without its line feed.
      where: names file and line in errors.

    Raises:
      UserError: the line is not a label, one tab and a text with a word in it.
    """
    problem = None
    label, tab, text = line.partition("\t")
    if not tab:
        problem = "there is no tab"
    elif "\t" in text:
        problem = "there is more than one tab"
    elif not label.strip():
        problem = "the label is empty"
    elif not text.strip():
        problem = "the sentence is empty"
    elif "\r" in line or "\n" in line:
        problem = "the line holds a carriage return or a line feed"
    if problem:
        raise UserError(f"{where}: {problem}: {shown(line)}. {_FIX}")
    return Sentence(text, label)
