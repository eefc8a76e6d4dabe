"""Pairs of outputs in random order and on random sides, and their HTML page.

The page contains neither the names of the files nor which side is whose. Both follow
from the files and the seed, so the votes are decoded with the same two files.
"""

import importlib.resources
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from jaxaug.core import files
from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike

# Lu and Lam (2023), section 5.5 and appendix H.
_PARAPHRASES = """\
Which paraphrase do you think is more grammatically different than the \
original input sentence?
Which paraphrase do you think is more lexically different than the original \
input sentence?
Which paraphrase is more difficult to read and understood?
Which one is more like a mutual implicative paraphrase to the input?
"""
_DIALOGUE = """\
Who is more appropriate given the previous dialogue context?
Who is more diverse instead of null answers such as I do not know?
Who would you prefer to talk with for a long conversation?
Which speaker do you think sounds more like a real person?
"""
QUESTIONS = {
    "paraphrases": tuple(_PARAPHRASES.splitlines()),
    "dialogue": tuple(_DIALOGUE.splitlines()),
}
_FIX = (
    "Give JSON lines with the texts `input` and `output`, as `jaxaug paraphrase` "
    "writes them, or with `inputs` and `prediction` of t5x.infer."
)


@dataclass(frozen=True)
class Pair:
    """Two outputs of an input, on the left and on the right."""

    input: str
    left: str
    right: str


@dataclass(frozen=True)
class Sheet:
    """A sheet and its key.

    Attributes:
        pairs: pairs in the order of the page.
        questions: questions about each pair.
        first_is_left: for each pair, whether the output of the first file is left.
        left_out: number of inputs of both files without two different outputs.
    """

    pairs: tuple[Pair, ...]
    questions: tuple[str, ...]
    first_is_left: tuple[bool, ...]
    left_out: int

    @property
    def digest(self) -> str:
        """Digest of the pairs and questions of the sheet, which votes must repeat."""
        return digest_of([[asdict(pair) for pair in self.pairs], self.questions])[:16]


def questions_of(name: str) -> tuple[str, ...]:
    """Returns the distinct questions of a key of `QUESTIONS`, or of a file.

    Raises:
        UserError: the file is missing, or repeats a question, or has none.
    """
    if name in QUESTIONS:
        return QUESTIONS[name]
    fix = f"--questions takes {', '.join(QUESTIONS)}, or a file with one per line."
    lines = [line.strip() for line in files.read_text(name, fix).splitlines()]
    found = tuple(filter(None, lines))
    if not found or len(set(found)) < len(found):
        raise UserError(
            f"{name}: {len(found)} questions, expected distinct ones. {fix}"
        )
    return found


def outputs(path: PathLike) -> dict[str, list[str]]:
    """Returns the distinct outputs of each input of a file, in order.

    Raises:
        UserError: a line is not JSON, or has no input or output.
    """
    found: dict[str, dict[str, None]] = {}
    for number, line in enumerate(files.read_text(path, _FIX).splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        record = files.parse_json(line, where, _FIX)
        texts = _texts(record) if isinstance(record, dict) else None
        if texts is None:
            raise UserError(f"{where}: no input or no output. {_FIX}")
        found.setdefault(texts[0], {})[texts[1]] = None
    return {name: list(texts) for name, texts in found.items()}


def _texts(record: Mapping) -> tuple[str, str] | None:
    source, output = record.get("input"), record.get("output")
    if "prediction" in record:
        output = record["prediction"]
        nested = record.get("inputs", source)
        source = nested.get("inputs_pretokenized") if isinstance(nested, dict) else None
    if isinstance(source, str) and isinstance(output, str):
        return source, output
    return None


def make(
    first: Mapping[str, Sequence[str]],
    second: Mapping[str, Sequence[str]],
    questions: Sequence[str],
    num: int,
    seed: int,
) -> Sheet:
    """Returns a sheet of at most `num` inputs that both files have.

    One output of each file is drawn for an input; equal outputs are not compared. The
    first file is on the left in half of the pairs.

    Args:
        num: largest number of pairs.

    Raises:
        UserError: `num` is below 1, or no input has two different outputs.
    """
    if num < 1:
        raise UserError(
            f"--num is {num}, expected at least 1. Give the number of pairs."
        )
    draw = random.Random(seed)
    common = [name for name in first if name in second]
    draw.shuffle(common)
    drawn = [(name, *_draw(draw, first[name], second[name])) for name in common]
    different = [(name, one, two) for name, one, two in drawn if one != two][:num]
    if not different:
        raise UserError(
            f"the files share {len(common)} inputs, and none has two different "
            "outputs. Give outputs of two systems for the same inputs."
        )
    sides = [place % 2 == 0 for place in range(len(different))]
    draw.shuffle(sides)
    pairs = tuple(
        Pair(name, one, two) if left else Pair(name, two, one)
        for (name, one, two), left in zip(different, sides, strict=True)
    )
    left_out = sum(one == two for _, one, two in drawn)
    return Sheet(pairs, tuple(questions), tuple(sides), left_out)


def _draw(
    draw: random.Random, first: Sequence[str], second: Sequence[str]
) -> tuple[str, str]:
    one = draw.choice(first)
    return one, draw.choice([text for text in second if text != one] or [one])


def page(sheet: Sheet, settings: Mapping[str, object]) -> str:
    """Returns the HTML page: one file, no network.

    Args:
        settings: arguments that make the sheet again; votes carry them.
    """
    data = {
        "sheet": {**settings, "digest": sheet.digest},
        "questions": sheet.questions,
        "pairs": [asdict(pair) for pair in sheet.pairs],
    }
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    template = importlib.resources.files(__package__) / "page.html"
    return template.read_text(encoding="utf-8").replace("{{data}}", text)
