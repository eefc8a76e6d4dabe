"""Persona-Chat as prepared for ConvAI2: dialogues of two people with a persona each.

The files have ParlAI's text format. A line is a number, a space, and one of

    your persona: i have two dogs.
    partner's persona: i like to remodel homes.
    utterance of the partner <tab> answer [<tab> <tab> candidate|candidate|...]

Number 1 begins a dialogue. Files are called `<split>_<side>_<wording>.txt`; the name of
files without candidates has `_no_cands` before the suffix. `side` names the speaker
whose persona is given (`self`, `other`, `both`, `none`). `wording` is `original` or
`revised` (rewritten by crowd workers).

The 1,000 validation dialogues of ConvAI2 have about 100 personas. With a random split,
the test would use personas of the training. In the splits of `by_persona`, dialogues
whose personas share a trait, directly or through other dialogues, stay together.
"""

import functools
import hashlib
import io
import os
import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from absl import logging
from etils import epath

from jaxaug.core import cache_folder
from jaxaug.core.cached import published_file
from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, reach, read_text, shown
from jaxaug.core.suggestion import nearest, one_of

SHARES: Mapping[str, int] = {"train": 8, "validation": 1, "test": 1}
"""Split -> share of the dialogues."""


@dataclass(frozen=True, slots=True)
class PersonaSplit:
    """The dialogues of each split.

    Attributes:
        seed: seed of the draw.
        groups: number of groups of dialogues; a group is never divided.
        members: split -> ids of its dialogues, in the order of the input.
    """

    seed: int
    groups: int
    members: Mapping[str, tuple[str, ...]]

    @property
    def digest(self) -> str:
        """A hash of the members; equal splits have equal hashes."""
        return digest_of({name: list(ids) for name, ids in self.members.items()})


def by_persona(
    personas: Mapping[str, Collection[str]],
    seed: int = 0,
    shares: Mapping[str, int] = SHARES,
) -> PersonaSplit:
    """Splits dialogues at random so that no trait occurs in two splits.

    The groups of dialogues are shuffled. Each split gets one group. Every further group
    goes to the split that lacks most of its share.

    Args:
        personas: dialogue id -> traits of the persona. A dialogue without traits forms
            a group alone.
        shares: split -> share of the dialogues; the default is `SHARES`.

    Raises:
        UserError: there are fewer groups than splits.
    """
    groups = _groups(personas)
    if len(groups) < len(shares):
        raise UserError(
            f"{len(personas)} dialogues have {len(groups)} personas that share no "
            f"trait, which cannot make {len(shares)} splits: give more dialogues."
        )
    random.Random(seed).shuffle(groups)
    total = sum(shares.values())
    split_of: dict[str, str] = {}
    sizes = dict.fromkeys(shares, 0)
    for group in groups:
        # Empty splits come first, then the one that lacks most; ties go to the first.
        name = max(
            shares,
            key=lambda one: (
                not sizes[one],
                shares[one] * len(personas) / total - sizes[one],
            ),
        )
        sizes[name] += len(group)
        split_of.update(dict.fromkeys(group, name))
    members = {
        name: tuple(one for one in personas if split_of[one] == name) for name in shares
    }
    return PersonaSplit(seed, len(groups), members)


def _groups(personas: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Returns the groups of dialogues connected by shared traits, in order."""
    parent = {one: one for one in personas}

    def root(one: str) -> str:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    first: dict[str, str] = {}
    for one, traits in personas.items():
        for trait in traits:
            parent[root(one)] = root(first.setdefault(trait, one))
    groups: dict[str, list[str]] = {}
    for one in personas:
        groups.setdefault(root(one), []).append(one)
    return list(groups.values())


DATA_DIR_VARIABLE = "JAXAUG_PERSONACHAT_DIR"
SPLITS_VARIABLE = "JAXAUG_PERSONACHAT_SPLITS"
DEFAULT_DIR = "data/personachat"  # The target of `jaxaug data fetch personachat`.

SIDES = ("self", "other", "both", "none")
WORDINGS = ("original", "revised")
# Names of the splits in SeqIO and in the names of the files.
SPLITS = {"train": "train", "validation": "valid"}
# Split -> last digits of the dialogue numbers that belong to it if `valid` is divided.
_SPLITS_OF_VALID = {"train": "01234567", "validation": "8", "test": "9"}
OFFICIAL, OF_VALID, BY_PERSONA = "official", "valid", "personas"

MARKERS = ("[persona]", "[partner_persona]", "[partner]", "[self]")
"""Markers of the text format of `jaxaug.formats.persona`; each is one piece."""

_LINE = re.compile(r"([0-9]{1,9}) (.*)", re.DOTALL)
_PERSONAS = ("your persona: ", "partner's persona: ")
_FIX = "Correct the file, or get it again with `jaxaug data fetch personachat`."
_VOCABULARY_VERSION = 1  # Part of the file name: raise it when the rules change.


@dataclass(frozen=True, slots=True)
class Turn:
    """An utterance of the partner with its answer."""

    partner: str
    response: str
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A dialogue. `dialogue_id` is the same for every side and wording."""

    dialogue_id: str
    persona: tuple[str, ...]
    partner_persona: tuple[str, ...]
    turns: tuple[Turn, ...]


def read_file(path: PathLike, name: str = "") -> list[Dialogue]:
    """Returns the dialogues of a file.

    Args:
        name: prefix of the dialogue ids: `<name>_00000`, `<name>_00001`, ...

    Raises:
        UserError: the file is missing, is empty, or breaks the format. The message
            gives the number and the text of the line.
    """
    dialogues: list[Dialogue] = []
    persona: tuple[list[str], list[str]] = ([], [])
    turns: list[Turn] = []
    expected = 1

    def finish(line: int) -> None:
        if not turns:
            raise UserError(
                f"{path}: line {line}: a dialogue ends here that has no utterance, "
                f"only a persona. {_FIX}"
            )
        dialogue_id = f"{name}_{len(dialogues):05}" if name else f"{len(dialogues):05}"
        dialogues.append(
            Dialogue(dialogue_id, tuple(persona[0]), tuple(persona[1]), tuple(turns))
        )

    lines = read_text(path, _FIX).rstrip("\n").split("\n")
    for line_number, line in enumerate(lines, 1):
        number, text = _numbered(line.rstrip("\r"), f"{path}: line {line_number}")
        if number == 1 and line_number > 1:
            finish(line_number - 1)
            persona, turns, expected = ([], []), [], 1
        if number != expected:
            raise UserError(
                f"{path}: line {line_number} has number {number}, expected {expected} "
                f"or 1: lines of a dialogue are numbered in order. {_FIX}"
            )
        expected += 1
        who = _persona_of(text)
        if who is None:
            turns.append(_turn(text, f"{path}: line {line_number}"))
        elif turns:
            raise UserError(
                f"{path}: line {line_number}: a persona after the first utterance "
                f"({shown(text)}); personas come first. {_FIX}"
            )
        else:
            persona[who].append(text[len(_PERSONAS[who]) :].strip())
    finish(len(lines))
    return dialogues


def _numbered(line: str, where: str) -> tuple[int, str]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise UserError(
            f"{where}: {shown(line)} does not begin with a number and a space. {_FIX}"
        )
    return int(match[1]), match[2]


def _persona_of(text: str) -> int | None:
    for who, prefix in enumerate(_PERSONAS):
        if text.startswith(prefix):
            return who
    return None


def _turn(text: str, where: str) -> Turn:
    columns = text.split("\t")
    if len(columns) < 2 or not columns[1].strip():
        raise UserError(
            f"{where}: {shown(text)} has no answer: expected an utterance, a tab and "
            f"the answer, or a persona. {_FIX}"
        )
    # The third column is a reward, which is empty here.
    candidates = columns[3].split("|") if len(columns) > 3 else []
    return Turn(
        columns[0].strip(),
        columns[1].strip(),
        tuple(one.strip() for one in candidates),
    )


def data_dir() -> epath.Path:
    """Returns `$JAXAUG_PERSONACHAT_DIR`, else `data/personachat`; it need not exist."""
    return reach(
        os.environ.get(DATA_DIR_VARIABLE) or DEFAULT_DIR,
        f"Correct ${DATA_DIR_VARIABLE}, or mend the cause.",
    )


def split_names() -> tuple[str, ...]:
    """Returns the names of the splits of tasks, which depend on `splits_of`."""
    return tuple(SPLITS if splits_of() == OFFICIAL else _SPLITS_OF_VALID)


def splits_of() -> str:
    """Returns `$JAXAUG_PERSONACHAT_SPLITS`, or "official" if it is not set.

    "official" uses the files as published. The test set of ConvAI2 was never published,
    so the field trains on `train` and reports on `valid`.

    The others divide the `valid` files into train, validation, and test splits (8:1:1).
    They serve experiments without the `train` files. "valid" divides by the last digit
    of the dialogue number, so splits share personas. "personas" divides with
    `by_persona`, so no two splits share a trait of the speaker's
    persona. A seed may follow a colon ("personas:3").

    Raises:
        UserError: the variable has another value.
    """
    value = os.environ.get(SPLITS_VARIABLE) or OFFICIAL
    if value not in (OFFICIAL, OF_VALID) and not re.fullmatch(
        rf"{BY_PERSONA}(:[0-9]{{1,9}})?", value
    ):
        raise UserError(
            f"${SPLITS_VARIABLE}={value}: use {OFFICIAL!r} for the files as they are, "
            f"{OF_VALID!r} to make all splits out of the validation dialogues, or "
            f"{BY_PERSONA!r} to make them so that they share no persona "
            f"('{BY_PERSONA}:1' with another seed than 0)."
        )
    return value


def find_file(folder: PathLike, split: str, side: str, wording: str) -> epath.Path:
    """Returns the file of a split (`train` or `valid`), preferably without candidates.

    Raises:
        UserError: an argument is unknown, or the file is missing.
    """
    known = {"split": ("train", "valid"), "side": SIDES, "wording": WORDINGS}
    for (name, words), value in zip(known.items(), (split, side, wording), strict=True):
        if value not in words:
            raise UserError(f"Persona-Chat {name} {value!r}: {one_of(value, words)}")
    stem = f"{split}_{side}_{wording}"
    paths = [epath.Path(folder) / f"{stem}{end}.txt" for end in ("_no_cands", "")]
    for path in paths:
        if path.exists():
            return path
    raise UserError(
        f"Persona-Chat: {paths[0]} is missing, and so is {paths[1].name}. Get them "
        "with `jaxaug data fetch personachat`, or name their folder with "
        f"${DATA_DIR_VARIABLE}. If there are only validation files, "
        f"{SPLITS_VARIABLE}={BY_PERSONA} divides them into all splits."
    )


def read(
    split: str,
    side: str = "self",
    wording: str = "original",
    folder: PathLike | None = None,
) -> list[Dialogue]:
    """Returns the dialogues of a split.

    Args:
        split: name of the split in SeqIO, one of `split_names()`.
        side: one of `SIDES`.
        wording: one of `WORDINGS`.
        folder: folder of the files; None means `data_dir()`.

    Raises:
        UserError: the split or file does not exist, or a file breaks the format.
    """
    if split not in split_names():
        raise UserError(
            f"Persona-Chat has no split {split!r}; there are "
            f"{', '.join(split_names())} (see ${SPLITS_VARIABLE})."
            f"{nearest(split, split_names())}"
        )
    choice = splits_of()
    file_split = SPLITS[split] if choice == OFFICIAL else "valid"
    folder = folder or data_dir()
    path = find_file(folder, file_split, side, wording)
    dialogues = read_file(path, file_split)
    if choice == OFFICIAL:
        return dialogues
    if choice == OF_VALID:
        members, told = _by_number(dialogues, split), ""
    else:
        found = split_by_persona(folder)
        members = frozenset(found.members[split])
        told = f", by persona in {found.groups} groups (digest {found.digest})"
    chosen = [dialogue for dialogue in dialogues if dialogue.dialogue_id in members]
    _warn_of_valid(str(path), split, len(chosen), len(dialogues), told)
    if not chosen:
        raise UserError(
            f"{path}: {len(dialogues)} dialogues are too few to make a {split} split "
            "of them; 10 are enough."
        )
    return chosen


def split_by_persona(
    folder: PathLike | None = None, seed: int | None = None
) -> PersonaSplit:
    """Divides the validation dialogues so that no two splits share a trait of `self`.

    The splits are the same for all sides and wordings; the file `self_original`
    decides. Personas of the partners may recur in several splits. They cannot be
    separated too, because dialogues connect nearly all of the 100 personas.

    Args:
        folder: folder of the files; None means `data_dir()`.
        seed: seed of the draw; None uses the seed in `splits_of()`, or 0.

    Raises:
        UserError: the file is missing, breaks the format, or has too few personas.
    """
    if seed is None:
        seed = int(splits_of().partition(":")[2] or 0)
    path = find_file(folder or data_dir(), "valid", "self", "original")
    personas = {one.dialogue_id: one.persona for one in read_file(path, "valid")}
    return by_persona(personas, seed)


def _by_number(dialogues: Sequence[Dialogue], split: str) -> frozenset[str]:
    ids = (one.dialogue_id for one in dialogues)
    return frozenset(one for one in ids if one[-1] in _SPLITS_OF_VALID[split])


@functools.cache
def _warn_of_valid(path: str, split: str, chosen: int, total: int, told: str) -> None:
    """Warns once per process, since several tasks read the same file."""
    logging.warning(
        "%s: split %r is %d of the %d validation dialogues ($%s=%s)%s; figures cannot "
        "be compared with published ones.",
        path,
        split,
        chosen,
        total,
        SPLITS_VARIABLE,
        splits_of(),
        told,
    )


def traits(dialogues: Sequence[Dialogue]) -> list[str]:
    """Returns the distinct traits of the personas, in order of appearance."""
    found: dict[str, None] = {}
    for dialogue in dialogues:
        found.update(dict.fromkeys(dialogue.persona + dialogue.partner_persona))
    return list(found)


def vocabulary_file(size: int = 8000, folder: PathLike | None = None) -> str:
    """Returns the path of a SentencePiece model of the training split.

    The model is trained at its first use and is meant for networks without pretrained
    weights. It is a lower-cased unigram model with byte fallback and one piece for each
    of `MARKERS`. The file name contains a hash of the training texts, as in
    `jaxaug.feed.vocabulary.train_words`.

    Args:
        size: maximum number of pieces.
        folder: folder of the files; None means `data_dir()`.

    Raises:
        UserError: the training split is missing.
    """
    texts = sorted(set(_texts(read("train", "self", "original", folder))))
    digest = hashlib.blake2b(
        repr((_VOCABULARY_VERSION, size, MARKERS, texts)).encode(), digest_size=12
    )
    name = f"personachat-{digest.hexdigest()}"
    path = cache_folder.cache_dir() / "vocabularies" / name / f"{name}.model"
    return str(published_file(path, lambda: _train(texts, size)))


def _texts(dialogues: Sequence[Dialogue]) -> Iterator[str]:
    for dialogue in dialogues:
        yield from dialogue.persona + dialogue.partner_persona
        for turn in dialogue.turns:
            yield turn.partner
            yield turn.response


def _train(texts: Sequence[str], size: int) -> bytes:
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        model_type="unigram",
        vocab_size=size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        byte_fallback=True,
        user_defined_symbols=list(MARKERS),
        normalization_rule_name="nmt_nfkc_cf",
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()
