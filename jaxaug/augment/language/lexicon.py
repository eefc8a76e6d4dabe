"""Synonyms of words, from the built-in lexicon or from WordNet.

The manual pages wndb(5WN) and wninput(5WN) of WordNet 3.0 define the format of its
database files. An index line names the synsets of a word by their byte offset in the
data file.
"""

import functools
import os
from collections.abc import Mapping
from typing import Protocol

from etils import epath

from jaxaug.augment.language import inflection
from jaxaug.augment.language.inflection import PARTICIPLE, PAST
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_bytes, read_text

_FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
_FIX = (
    "Name a folder with the database files of WordNet 3 (index.noun, data.noun and so "
    "on), such as /usr/share/wordnet of Debian's package wordnet-base; without one "
    "the built-in lexicon is used."
)


class WordNet:
    """Synonyms: all other words of all synsets of a word, in order of the senses."""

    def __init__(self, folder: PathLike):
        """
        Args:
            folder: folder with `index.*` and `data.*` for noun, verb, adj, and adv.

        Raises:
            UserError: a file is missing, or is not a WordNet file.
        """
        self.folder = epath.Path(folder).expanduser()
        for kind in _FILES.values():
            for name in (f"index.{kind}", f"data.{kind}"):
                if not (self.folder / name).exists():
                    raise UserError(
                        f"no WordNet in {folder}: {name} is missing. {_FIX}"
                    )

    @functools.cached_property
    def _index(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """Word as spelled in the file -> part of speech -> offsets of its synsets."""
        found: dict[str, dict[str, tuple[int, ...]]] = {}
        for pos, kind in _FILES.items():
            path = self.folder / f"index.{kind}"
            for number, line in enumerate(read_text(path, _FIX).splitlines(), 1):
                if not line.strip() or line.startswith("  "):  # The license.
                    continue
                fields = line.split()
                try:
                    offsets = tuple(map(int, fields[-int(fields[2]) :]))
                except (IndexError, ValueError):
                    raise UserError(
                        f"{path}, line {number}: is not a line of a WordNet index: "
                        f"{line[:60]!r}. {_FIX}"
                    ) from None
                found.setdefault(fields[0], {})[pos] = offsets
        return found

    @functools.cached_property
    def _data(self) -> dict[str, bytes]:
        return {
            pos: read_bytes(self.folder / f"data.{kind}", _FIX)
            for pos, kind in _FILES.items()
        }

    @functools.cached_property
    def _exceptions(self) -> dict[str, set[tuple[str, str]]]:
        """Irregular form -> base forms with their part of speech."""
        found: dict[str, set[tuple[str, str]]] = {}
        for pos, kind in _FILES.items():
            path = self.folder / f"{kind}.exc"
            for line in read_text(path, _FIX).splitlines() if path.exists() else ():
                form, *bases = line.split()
                found.setdefault(form, set()).update((base, pos) for base in bases)
        return found

    def lookup(self, base: str) -> Mapping[str, tuple[str, ...]]:
        """See `jaxaug.augment.language.lexicon.Lexicon`.

        Raises:
            UserError: the data do not belong to the index.
        """
        found = {}
        for pos, offsets in self._index.get(base.replace(" ", "_"), {}).items():
            words = [word for o in offsets for word in self._synset(pos, o)]
            others = dict.fromkeys(word for word in words if word.lower() != base)
            if others:
                found[pos] = tuple(others)
        return found

    def shared(self, word: str) -> frozenset[str]:
        """Returns the words that share a synset with a word or with a base form of it.

        Args:
            word: in lower case; regular and irregular forms are traced to their base,
                also by the files `noun.exc` and so on if they exist.

        Raises:
            UserError: the data do not belong to the index.
        """
        bases = {(form.base, form.pos) for form in inflection.readings(word)}
        bases |= self._exceptions.get(word, set())
        return frozenset(
            other
            for base, pos in bases
            for kind, others in self.lookup(base).items()
            if pos in ("", kind)
            for other in (base, *others)
        )

    def _synset(self, pos: str, offset: int) -> list[str]:
        data = self._data[pos]
        line = data[offset : data.find(b"\n", offset)].decode("utf-8")
        fields = line.split(" ")
        try:
            if int(fields[0]) != offset:
                raise ValueError(fields[0])
            count = int(fields[3], 16)
            words = fields[4 : 4 + 2 * count : 2]
        except (IndexError, ValueError):
            raise UserError(
                f"{self.folder / f'data.{_FILES[pos]}'}: no synset at byte {offset}: "
                f"{line[:60]!r}; it does not belong to the index. {_FIX}"
            ) from None
        # `(p)` and the like mark the position of an adjective.
        return [word.partition("(")[0].replace("_", " ") for word in words]


_FILE = epath.Path(__file__).parent / "lexicon.txt"


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS = _set(
    """
    a an the this that these those some any no none not nor and or but so if then
    than as at by for from in into of off on onto out over to under up with without
    about after before between through during against i me my mine myself you your
    yours yourself he him his himself she her hers herself it its itself we us our
    ours ourselves they them their theirs themselves who whom whose which what when
    where why how am is are was were be been being have has had having do does did
    doing done can could will would shall should may might must ought there here
    such own same too n't 's 're 've 'll 'd 'm don't doesn't didn't isn't aren't
    wasn't weren't haven't hasn't hadn't can't cannot couldn't won't wouldn't
    shouldn't i'm i've i'll i'd it's you're you've you'll he's she's we're we've
    they're they've that's there's what's
    """
)
"""Words that are never replaced, as they hold a sentence together."""

# Words that decide the part of speech of the next word if it has several.
_BEFORE_NOUN = _set(
    """
    a an the this that these those my your his her its our their of in on at by for
    from with without per each every any some no 's
    """
)
_BEFORE_VERB = _set(
    """
    to i you we they he she who can could will would shall should may might must
    please don't not
    """
)


class Lexicon(Protocol):
    """Synonyms of base forms."""

    def lookup(self, base: str) -> Mapping[str, tuple[str, ...]]:
        """Returns part of speech (n, v, a, r, o) -> synonyms in their base form.

        Args:
            base: in lower case; several words are separated by spaces.
        """


class BuiltIn:
    """The lexicon in `lexicon.txt`: sets of words with about the same meaning."""

    @functools.cached_property
    def _sets(self) -> dict[str, dict[str, dict[str, None]]]:
        """Word -> part of speech -> synonyms in the order of the file."""
        found: dict[str, dict[str, dict[str, None]]] = {}
        for line in _FILE.read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                continue
            pos, *written = line.split()
            words = [word.replace("_", " ") for word in written]
            for word in words:
                others = found.setdefault(word, {}).setdefault(pos, {})
                others |= dict.fromkeys(other for other in words if other != word)
        return found

    def lookup(self, base: str) -> Mapping[str, tuple[str, ...]]:
        """See `Lexicon`."""
        found = self._sets.get(base, {})
        return {pos: tuple(words) for pos, words in found.items()}

    @functools.cached_property
    def words(self) -> tuple[str, ...]:
        """The single words, sorted."""
        return tuple(sorted(word for word in self._sets if " " not in word))


def load(wordnet_dir: PathLike | None = None) -> Lexicon:
    """Returns the built-in lexicon, or WordNet from its folder; loaded once.

    Args:
        wordnet_dir: folder with the files of WordNet (`data.noun` ...), such as
            /usr/share/wordnet of Debian's package wordnet-base.

    Raises:
        UserError: the folder does not hold WordNet.
    """
    if wordnet_dir is None:
        return built_in()
    return _wordnet(os.fspath(wordnet_dir))


_wordnet = functools.cache(WordNet)


@functools.cache
def built_in() -> BuiltIn:
    """Returns the built-in lexicon; loaded once."""
    return BuiltIn()


def synonyms(word: str, lexicon: Lexicon, before: str | None = None) -> tuple[str, ...]:
    """Returns synonyms of a word in its form, in lower case.

    Args:
        word: `prices` gives `costs`.
        before: the word before it, None for none; it separates nouns from verbs if the
            lexicon has both.

    Returns:
        The synonyms without the word itself, in the order of the lexicon.
    """
    word = word.lower()
    found: dict[str, None] = {}
    forms = list(inflection.readings(word))
    by_pos = [
        (form, pos, bases)
        for form in forms
        for pos, bases in lexicon.lookup(form.base).items()
        if form.pos in ("", pos)
    ]
    fitting = _fitting({pos for _, pos, _ in by_pos}, before)
    for form, pos, bases in by_pos:
        if pos not in fitting:
            continue
        for base in bases:
            written = inflection.inflect(base, pos, form.form)
            # `-ed` may be either form, so require words whose two forms are equal too.
            other = {PAST: PARTICIPLE, PARTICIPLE: PAST}.get(form.form)
            ambiguous = other and form._replace(form=other) in forms
            if not ambiguous or inflection.inflect(base, pos, other or "") == written:
                found[written] = None
    found.pop(word, None)
    return tuple(found)


def _fitting(known: set[str], before: str | None) -> set[str]:
    before = before.lower() if before else None
    if before in _BEFORE_NOUN and known & {"n", "a"}:
        return known & {"n", "a"}
    if (before is None or before in _BEFORE_VERB) and "v" in known:
        # At the beginning, a noun of a label is as likely as an imperative.
        return known & ({"v", "n"} if before is None else {"v"})
    return known
