"""A tracker that decodes with CTranslate2; only its first start imports JAX.

The first start converts the run with JAX and writes notes to the cache folder. They
give the folder of the model, the meaning of its tokens, the format, and the lengths; a
copy of the vocabulary lies next to them. The key of the cache covers the names, sizes,
and times of the run's files.
"""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath
from jaxaug_base.files import absolute

from jaxaug.core import cache_folder, cached, manifest
from jaxaug.core.digests import code_digest, digest_of
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, is_remote, read_json
from jaxaug.data.schema import Schema
from jaxaug.feed import vocabulary
from jaxaug.models.engine import runner
from jaxaug.track.base import BaseTracker, read_services
from jaxaug.track.options import LIKELIHOOD, Robust

_NOTES, _WORDS = "tracker.json", "vocabulary.model"
_CONFIG = "config.gin"
# Variables that determine how a run is read.
_VARIABLES = (
    *("JAXAUG_VOCABULARY", "JAXAUG_DATA_DIR", "JAXAUG_CACHE_DIR"),
    *("JAXAUG_ACCEPT_CHANGED_CONFIG", "JAXAUG_TRUSTED_MODULES"),
)
_ROWS = 32  # number of inputs that are decoded together
_NO_LIKELIHOOD = (
    "--combine likelihood with --engine ctranslate2: only JAX rates answers. Take "
    "--combine vote, or leave --engine out."
)


class EngineTracker(BaseTracker):
    """Predicts dialogue states like `Tracker`; decodes with CTranslate2."""

    def __init__(
        self,
        notes: Mapping[str, Any],
        words: vocabulary.TokenVocabulary,
        schema: Schema,
        batch_size: int | None = None,
        robust: Robust | None = None,
    ):
        """
        Args:
            notes: contents of `tracker.json` in the cache folder.
            batch_size: number of inputs that are decoded together; None means 32.
            robust: further wordings and checks of the answers; None means `Robust()`.

        Raises:
            UserError: an option needs JAX.
        """
        super().__init__(
            (words, words), notes["family"], notes["lengths"], schema, robust
        )
        check(self.robust)
        self.identity = [*notes["identity"], *self.identity]
        rules: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in notes["rules"].items()
        }
        self._search = runner.Search(max_length=self._lengths["targets"])
        self._engine = runner.Engine(
            notes["folder"], runner.Rules(**rules), batch_size=batch_size or _ROWS
        )

    @classmethod
    def load(
        cls,
        run: PathLike,
        schema: PathLike | Schema | None = None,
        batch_size: int | None = None,
        robust: Robust | None = None,
        *,
        precision: str = "float32",
    ) -> "EngineTracker":
        """Returns the tracker of a training run; see `Tracker.load`.

        Args:
            run: folder of the run, or one of its checkpoints.
            schema: schema of the services, or its file; see `Tracker.load`.
            batch_size: number of inputs that are decoded together; None means 32.
            robust: further wordings and checks of the answers; None means `Robust()`.
            precision: precision of the weights; see `jaxaug.models.engine.runner`.

        Raises:
            UserError: the run cannot be loaded (see `Tracker.load`), CTranslate2 is not
                installed or does not support the model, or an option needs JAX.
        """
        if batch_size is not None and batch_size < 1:
            raise UserError(f"batch_size is {batch_size}: give at least 1.")
        check(robust or Robust())
        folder = absolute(run)
        services = read_services(schema)
        place = _place(folder, precision)
        if place is None or not _is_whole(place):
            place = _converted(folder, precision, place)
        notes = read_json(place / _NOTES, "Remove the folder.")
        words = vocabulary.TokenVocabulary(place / _WORDS)
        found = cls(notes, words, services, batch_size, robust)
        found._run = str(folder)
        return found

    @property
    def code(self) -> str:
        """Digest of the code on which the outputs depend."""
        return code_digest("jaxaug.models.engine", __name__)

    def write_tokens(self, inputs: Sequence[list[int]]) -> list[list[int]]:
        """Returns the output tokens of each input, followed by EOS.

        Args:
            inputs: tokens of each input, including EOS.
        """
        self._between()
        if not inputs:
            return []
        return [
            [*one[0].ids, self._output_words.eos_id]
            for one in self._engine(inputs, self._search)
        ]

    def _log_likelihoods(self, pairs: Sequence[tuple[list[int], str]]) -> list[float]:
        """Raises `UserError`: the engine rates no answers."""
        raise UserError(_NO_LIKELIHOOD)


def check(robust: Robust) -> None:
    """Checks that no option needs JAX.

    Raises:
        UserError: answers are constrained, or combined by likelihood.
    """
    if robust.constrained:
        raise UserError(
            "--constrained with --engine ctranslate2: only JAX restricts answers to a "
            "format. Leave one of them out."
        )
    if robust.combine == LIKELIHOOD:
        raise UserError(_NO_LIKELIHOOD)


def _place(folder: epath.Path, precision: str) -> epath.Path | None:
    """Returns the cache folder for the notes of a run; None if it cannot be cached."""
    if is_remote(folder) or not folder.is_dir():
        return None
    root = folder if (folder / _CONFIG).exists() else folder.parent
    files = []
    for parent, _, names in os.walk(root):
        for name in names:
            path = os.path.join(parent, name)
            stat = os.stat(path)
            files.append([path, stat.st_size, stat.st_mtime_ns])
    variables = [os.environ.get(name) for name in _VARIABLES]
    code = code_digest("jaxaug.models.engine", __name__)
    key = digest_of([str(folder), sorted(files), variables, precision, code])
    return cache_folder.local_cache_dir() / "ctranslate2" / f"run-{key}"


def _is_whole(place: epath.Path) -> bool:
    """Returns whether the notes and the model of a run are cached and unchanged."""
    if manifest.opened(place) is None:
        return False
    notes = read_json(place / _NOTES, "Remove the folder.")
    return manifest.opened(epath.Path(notes["folder"])) is not None


def _converted(
    folder: epath.Path, precision: str, place: epath.Path | None
) -> epath.Path:
    """Converts the model of a run with JAX; returns the cache folder of the notes."""
    # Imported here, because models import JAX.
    from jaxaug.models.text import adapters, continuing, in_engine, registry
    from jaxaug.track import trained

    run, family, lengths = trained.of_run(folder)
    model = continuing.load(run)
    if not isinstance(model, registry.TextModel):
        raise UserError(
            f"{folder}: the model has only a decoder. Only encoder-decoders track with "
            "--engine ctranslate2; leave it out."
        )
    words = model.output_vocabulary
    file = _file(words)
    if not file or file != _file(model.input_vocabulary):
        raise UserError(
            f"{folder}: its vocabulary is a {type(words).__name__}. With --engine "
            "ctranslate2 a tracker has one SentencePiece model; leave --engine out."
        )
    kept = in_engine.kept(model, precision)
    notes = {
        "folder": str(kept),
        "family": family,
        "lengths": dict(lengths),
        "identity": [model.identity, runner.CTRANSLATE2, precision],
        "rules": dataclasses.asdict(in_engine.rules_of(model)),
    }
    if place is None or adapters.is_run(folder):
        # The key must also cover the files of an adapter's base model.
        place = kept.parent / f"run-{digest_of(notes)}"

    def write(temporary: epath.Path) -> None:
        (temporary / _NOTES).write_text(json.dumps(notes))
        epath.Path(file).copy(temporary / _WORDS)
        manifest.write(temporary)

    if not _is_whole(place):
        cached.publish(place, write)
    return place


def _file(words: Any) -> str:
    """Returns the file of a SentencePiece vocabulary; empty for any other."""
    if hasattr(words, "backend"):
        return ""
    return str(getattr(words, "path", getattr(words, "sentencepiece_model_file", "")))
