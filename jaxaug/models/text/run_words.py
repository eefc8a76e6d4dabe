"""Vocabulary of a loaded run: the copy in its folder, read without TensorFlow."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from etils import epath

from jaxaug.feed import run_vocabulary, vocabulary
from jaxaug.models.tokenizers import hf

_TASKS = "tasks.vocabulary"


class RunWords:
    """Replaces the vocabulary functions of a configuration for one run.

    The functions of `tasks.vocabulary` serve the single run of a training program.
    Here, several runs may be loaded, each with its own vocabulary.
    """

    def __init__(self, folder: epath.Path):
        """Takes the folder with `config.gin`; nothing is read yet."""
        self._folder = folder
        self._named = ""

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """Replacements of functions that the configuration calls."""
        return {
            f"{_TASKS}.default_vocabulary": self.default_vocabulary,
            f"{_TASKS}.FoundVocabulary": self.default_vocabulary,
            f"{_TASKS}.padded_size": self.padded_size,
            "jaxaug.feed.vocabulary.TokenVocabulary": self.token_vocabulary,
            # The copy in the run is used, since the pairs may be missing.
            "jaxaug.feed.pair_words.path_of": lambda **_: "",
        }

    @functools.cached_property
    def words(self) -> vocabulary.TokenVocabulary:
        """Vocabulary of the run."""
        return vocabulary.TokenVocabulary(vocabulary.of_run(self._folder, self._named))

    def default_vocabulary(self, path: str | None = None) -> Any:
        """Replaces `tasks.vocabulary.default_vocabulary`, by the run's vocabulary."""
        if path and hf.is_published(path):
            return hf.load(path, id_offset=1)
        self._named = self._named or path or ""
        return self.words

    def padded_size(self, multiple: int = 128, words: Any = None) -> int:
        """Replaces `tasks.vocabulary.padded_size`, for the run's vocabulary."""
        del words  # The run has one vocabulary.
        return -(-self.words.vocab_size // multiple) * multiple

    def token_vocabulary(self, path: str | None = None) -> vocabulary.TokenVocabulary:
        """Replaces `TokenVocabulary`; returns the run's vocabulary."""
        if path and run_vocabulary.of_run(self._folder) is None:
            return vocabulary.TokenVocabulary(path)
        return self.words
