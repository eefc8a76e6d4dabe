"""Readers of published data sets for sentence classification: SNIPS, TREC, Yahoo-L31.

Each reader returns the `FewShotData` of a folder. `READERS` has them by name, and a
reader of lines `label<TAB>sentence`.
"""

from collections.abc import Callable, Iterator, Mapping

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, parse_json, read_text, shown
from jaxaug_papers.shared import labelled
from jaxaug_papers.shared.labelled import FewShotData, Sentence

_SNIPS_FIX = "Get the files again with `jaxaug data fetch snips`."
_TREC_FIX = (
    "Get train_5500.label and TREC_10.label of Li and Roth's question classification "
    "(cogcomp.seas.upenn.edu/Data/QA/QC) as train.txt and test.txt: lines "
    "`COARSE:fine question`."
)
_YAHOO_FIX = (
    "Yahoo! gives the set L31, questions of Yahoo Answers that are labelled as "
    "informational or conversational, to universities on request "
    "(webscope.sandbox.yahoo.com, Language Data), and it may not be passed on. Put it "
    "there as train.txt and test.txt, one question a line as `label<TAB>question`; "
    "Kumar et al. (2019) have 4,000 to train, 1,000 to validate and 1,000 to test."
)


def read_snips(folder: PathLike) -> FewShotData:
    """Returns SNIPS with seven intents (Coucke et al., 2018).

    The published validation files are the test split.

    Runs of white space become a space. A file that is not UTF-8 is read as Latin-1, the
    encoding of the published file of PlayMusic.

    Args:
        folder: folder with `train_<Intent>_full.json` and `validate_<Intent>.json`.

    Raises:
        UserError: a file is missing or damaged, or the splits are invalid (see
            `jaxaug_papers.shared.labelled.checked`).
    """
    place = epath.Path(folder)
    names = sorted(path.name for path in place.glob("train_*_full.json"))
    intents = [name[len("train_") : -len("_full.json")] for name in names]
    if not intents:
        raise UserError(f"{place}: no train_<Intent>_full.json is there. {_SNIPS_FIX}")
    train, test = (
        [s for i in intents for s in _snips_file(place / form.format(i), i)]
        for form in ("train_{}_full.json", "validate_{}.json")
    )
    return labelled.checked(place, train, test, _SNIPS_FIX)


def _snips_file(path: epath.Path, intent: str) -> Iterator[Sentence]:
    text = read_text(path, _SNIPS_FIX, otherwise="latin-1")
    content = parse_json(text, path, _SNIPS_FIX)
    items = content.get(intent) if isinstance(content, dict) else None
    if not isinstance(items, list):
        raise UserError(f"{path}: has no list {intent!r}. {_SNIPS_FIX}")
    for number, item in enumerate(items, 1):
        try:
            text = "".join(part["text"] for part in item["data"]).strip()
        except (TypeError, KeyError):
            text = ""
        if not text:
            raise UserError(
                f"{path}: item {number}: {shown(item)}: expected data with texts. "
                f"{_SNIPS_FIX}"
            )
        yield Sentence(" ".join(text.split()), intent)


def read_trec(folder: PathLike) -> FewShotData:
    """Returns TREC's questions (Li and Roth, 2002) with their six coarse classes.

    Raises:
        UserError: a file is missing, a line has no label, or the splits are invalid.
    """
    place = epath.Path(folder)
    train, test = (list(_trec_file(place / f"{s}.txt")) for s in ("train", "test"))
    return labelled.checked(place, train, test, _TREC_FIX)


def _trec_file(path: epath.Path) -> Iterator[Sentence]:
    # `splitlines` would also split at separators inside a question.
    text = read_text(path, _TREC_FIX, otherwise="latin-1")
    lines = text.removesuffix("\n").split("\n")
    for number, line in enumerate(lines, 1):
        label, _, text = line.partition(" ")
        coarse, colon, fine = label.partition(":")
        if not (coarse and colon and fine and text.strip()):
            raise UserError(
                f"{path}: line {number}: {shown(line)} has no label such as "
                f"`DESC:manner` before its question. {_TREC_FIX}"
            )
        yield Sentence(" ".join(text.split()), coarse)


def read_yahoo_l31(folder: PathLike) -> FewShotData:
    """Returns Yahoo-L31, which users convert to lines; messages say how to get it.

    Raises:
        UserError: a file is missing, a line has no label, or the splits are invalid.
    """
    place = epath.Path(folder)
    for split in ("train", "test"):
        if not (place / f"{split}.txt").exists():
            raise UserError(f"{place}: no {split}.txt is there. {_YAHOO_FIX}")
    return labelled.load(place)


READERS: Mapping[str, Callable[[PathLike], FewShotData]] = {
    "snips": read_snips,
    "trec": read_trec,
    "yahoo-l31": read_yahoo_l31,
    "lines": labelled.load,
}
"""Name -> reader of a folder."""
