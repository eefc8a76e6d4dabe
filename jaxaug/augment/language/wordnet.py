"""WordNet from its database files (WNDB), without a library.

The manual pages wndb(5WN) and wninput(5WN) of WordNet 3.0 define the format. An index
line names the synsets of a word by their byte offset in the data file.
"""

import functools
from collections.abc import Mapping

from etils import epath

from jaxaug.augment.language import inflection
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
