"""The vocabulary of a run that is loaded: the copy in its folder, without TensorFlow."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from etils import epath

from jaxaug.feed import run_vocabulary, vocabulary
from jaxaug.models.tokenizers import hf

_TASKS = "tasks.vocabulary"


class RunWords:
    """What a run's configuration calls a vocabulary, for this run alone.

    The functions of `tasks.vocabulary` serve the one run of a training program; here
    several runs may be loaded, each with its own.
    """

    def __init__(self, folder: epath.Path):
        """Takes the folder with `config.gin`; nothing is read yet."""
        self._folder = folder
        self._named = ""

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """What to call in place of functions of the configuration."""
        return {
            f"{_TASKS}.default_vocabulary": self.default_vocabulary,
            f"{_TASKS}.FoundVocabulary": self.default_vocabulary,
            f"{_TASKS}.padded_size": self.padded_size,
            "jaxaug.feed.vocabulary.TokenVocabulary": self.token_vocabulary,
            # The copy in the run is used; the pairs may be gone.
            "jaxaug.feed.pair_words.path_of": lambda **_: "",
        }

    @functools.cached_property
    def words(self) -> vocabulary.TokenVocabulary:
        """The vocabulary."""
        return vocabulary.TokenVocabulary(vocabulary.of_run(self._folder, self._named))

    def default_vocabulary(self, path: str | None = None) -> Any:
        """As `tasks.vocabulary.default_vocabulary`."""
        if path and hf.is_published(path):
            return hf.load(path, id_offset=1)
        self._named = self._named or path or ""
        return self.words

    def padded_size(self, multiple: int = 128, words: Any = None) -> int:
        """As `tasks.vocabulary.padded_size`."""
        del words  # The run has one vocabulary.
        return -(-self.words.vocab_size // multiple) * multiple

    def token_vocabulary(self, path: str | None = None) -> vocabulary.TokenVocabulary:
        """As `jaxaug.feed.vocabulary.TokenVocabulary`."""
        if path and run_vocabulary.of_run(self._folder) is None:
            return vocabulary.TokenVocabulary(path)
        return self.words
