"""Persona-Chat tasks: persona and dialogue history -> the next response.

- `personachat_{self,other}_{original,revised}`: the files of ConvAI2.
- `personachat_<method>_level<c>`: the train split of `personachat_self_original` with
  reworded persona traits. Methods and levels come from
  `jaxaug.curriculum.persona_levels` (`pcc`, `eda`, `rt`).
- mixtures of `personachat_self_original` (a fifth of the examples) and, at equal rates,
  rewordings. `personachat_flatten` has all levels of `pcc` at once,
  `personachat_official` the personas revised by people, and `personachat_rt` round-trip
  translations.
- the same with the prefix `personachat_turns_`, for models of plain turns such as
  DialoGPT (see `jaxaug.formats.persona`).

A curriculum mixes the levels with `jaxaug.curriculum.mixture.level_mixture`. The
variables of `jaxaug.data.personachat` give the location of the files and the dialogues
of the splits. Registration reads no data.
"""

import functools
import itertools
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import seqio
import tensorflow as tf

from jaxaug.curriculum import persona_levels
from jaxaug.data import personachat
from jaxaug.feed.examples import Ends, Ids, Lengths, keep_last_turns
from jaxaug.formats import persona
from jaxaug.metrics import text as scores_of_text
from tasks import vocabulary
from tasks.cached_task import CachedTask

ORIGINAL_FRACTION = 0.2
_PREFIXES = {"personachat_": "marked", "personachat_turns_": "turns"}
_FIELDS = ("persona", "history", "targets", "dialogue_id")


def register() -> None:
    """Adds every task and mixture to SeqIO's registries.

    Raises:
        UserError: a variable has an invalid value.
    """
    for prefix, style in _PREFIXES.items():
        options = persona.PersonaOptions(style=style)
        for side, wording in itertools.product(("self", "other"), personachat.WORDINGS):
            source = functools.partial(_plain, side, wording)
            _add(
                f"{prefix}{side}_{wording}", personachat.split_names(), source, options
            )
        levels = {}
        for method in persona_levels.METHODS:
            levels[method] = [
                f"{prefix}{method}_level{level}"
                for level in range(1, persona_levels.number_of_levels(method) + 1)
            ]
            for level, name in enumerate(levels[method], 1):
                source = functools.partial(
                    _reworded, method, level, zlib.crc32(name.encode())
                )
                _add(name, ("train",), source, options)
        original = f"{prefix}self_original"
        for mixture, others in {
            "flatten": levels["pcc"],
            "official": [f"{prefix}self_revised"],
            "rt": levels["rt"],
        }.items():
            rate = (1 - ORIGINAL_FRACTION) / len(others)
            rates = [(original, ORIGINAL_FRACTION), *((name, rate) for name in others)]
            seqio.MixtureRegistry.add(f"{prefix}{mixture}", rates)


def _add(
    name: str, splits: Sequence[str], source: Any, options: persona.PersonaOptions
) -> None:
    words = vocabulary.default_vocabulary()
    task = PersonaTask(
        name,
        source=seqio.FunctionDataSource(
            functools.partial(_dataset, name, source, options), splits=splits
        ),
        output_features={
            "inputs": seqio.Feature(words, add_eos=True),
            "targets": seqio.Feature(words, add_eos=True),
        },
        preprocessors=[
            encode,
            seqio.CacheDatasetPlaceholder(),
            *PersonaTask.behind,
        ],
        postprocess_fn=postprocess,
        metric_fns=[responses, likelihoods],
    )
    seqio.TaskRegistry.add_provider(name, task)


Source = tuple[list[personachat.Dialogue], persona.Rewording | None]


def _plain(side: str, wording: str, split: str) -> Source:
    return personachat.read(split, side, wording), None


def _reworded(method: str, level: int, seed: int, split: str) -> Source:
    dialogues = personachat.read(split)
    table = _table(method, split, personachat.data_dir())

    def reword(dialogue: personachat.Dialogue, turn: int) -> tuple[str, ...]:
        return persona_levels.reworded(table, dialogue, turn, level, seed)

    return dialogues, reword


@functools.lru_cache(maxsize=len(persona_levels.METHODS))
def _table(method: str, split: str, data_dir: Any) -> persona_levels.Table:
    """Returns the table of a method's levels; `data_dir` is only a part of the cache
    key.
    """
    del data_dir
    return persona_levels.table(method, personachat.traits(personachat.read(split)))


def _dataset(
    name: str,
    source: Any,
    options: persona.PersonaOptions,
    split: str,
    shuffle_files: bool = False,
    seed: int | None = None,
) -> tf.data.Dataset:
    dialogues, reword = source(split)
    found = [
        example
        for dialogue in dialogues
        for example in persona.examples(dialogue, options, reword)
    ]
    if shuffle_files:
        # The tasks of a mixture get the same seed, but should not show the same
        # dialogue in all wordings at the same time.
        own = None if seed is None else (seed, zlib.crc32(name.encode()))
        found = [found[i] for i in np.random.default_rng(own).permutation(len(found))]
    columns: dict[str, Any] = {
        field: [getattr(example, field) for example in found] for field in _FIELDS
    }
    columns["inputs"] = [example.inputs for example in found]
    columns["turn"] = np.array([example.turn for example in found], np.int32)
    return tf.data.Dataset.from_tensor_slices(columns)


def encode(
    dataset: tf.data.Dataset, output_features: Mapping[str, seqio.Feature]
) -> tf.data.Dataset:
    """Converts text to ids; a line break becomes the end of sequence.

    The texts are kept as `inputs_pretokenized` and `targets_pretokenized`.
    """
    words = output_features["inputs"].vocabulary

    def ids(text: tf.Tensor) -> tf.Tensor:
        lines = words.encode_tf(tf.strings.split(text, "\n"))
        ends = tf.fill([lines.nrows(), 1], tf.cast(words.eos_id, lines.dtype))
        return tf.cast(tf.concat([lines, ends], axis=1).flat_values[:-1], tf.int32)

    def convert(example: Mapping[str, tf.Tensor]) -> Mapping[str, tf.Tensor]:
        return {
            "persona": ids(example["persona"]),
            "history": ids(example["history"]),
            "targets": ids(example["targets"]),
            "inputs_pretokenized": example["inputs"],
            "targets_pretokenized": example["targets"],
            "dialogue_id": example["dialogue_id"],
            "turn": example["turn"],
        }

    return dataset.map(convert, num_parallel_calls=tf.data.AUTOTUNE)


def fit(
    dataset: tf.data.Dataset,
    output_features: Mapping[str, seqio.Feature],
    sequence_length: Mapping[str, int] | None = None,
) -> tf.data.Dataset:
    """Joins persona and history to inputs; long inputs lose their oldest utterances.

    The persona is cut only if it alone takes more than half of the room. It then keeps
    its beginning.
    """
    limit = (sequence_length or {}).get("inputs")
    room = None if limit is None else limit - int(output_features["inputs"].add_eos)

    def join(example: Mapping[str, tf.Tensor]) -> Mapping[str, tf.Tensor]:
        others = dict(example)
        first, rest = others.pop("persona"), others.pop("history")
        if room is not None:
            kept = tf.maximum(room - tf.size(rest), room // 2)
            first = first[: tf.maximum(kept, 0)]
            rest = rest[tf.maximum(tf.size(rest) - room + tf.size(first), 0) :]
        return {"inputs": tf.concat([first, rest], axis=0), **others}

    return dataset.map(join, num_parallel_calls=tf.data.AUTOTUNE)


class PersonaTask(CachedTask):
    """A task whose examples keep their persona if the history is too long."""

    loses: ClassVar = {
        "inputs": "their oldest utterances",
        "targets": "the end of the response",
    }
    parts: ClassVar = {"inputs": ("persona", "history"), "targets": ("targets",)}
    behind = (fit, seqio.preprocessors.append_eos_after_trim)

    @staticmethod
    def cut(fields: Mapping[str, Ids], lengths: Lengths, ends: Ends) -> dict[str, Ids]:
        """Cuts an example like `fit`; see `CachedTask.cut`."""
        room = lengths["inputs"] - (ends["inputs"] is not None)
        first, rest = fields["persona"], fields["history"]
        first = first[: max(room - len(rest), room // 2)]
        rest = rest[max(len(rest) - room + len(first), 0) :]
        joined = {"inputs": np.append(first, rest), "targets": fields["targets"]}
        return keep_last_turns(joined, lengths, ends)


def postprocess(
    text: str, example: Mapping[str, Any], is_target: bool = False
) -> dict[str, Any]:
    """Returns the response as text; for a target also the number of scored tokens."""
    found: dict[str, Any] = {"text": persona.parse(text)}
    if is_target:
        found["tokens"] = len(example["targets"])
    return found


def responses(
    targets: Sequence[Mapping[str, Any]], predictions: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Scores generated text by `jaxaug.metrics.text`, in percent: a SeqIO metric_fn."""
    return scores_of_text.response_scores(
        [one["text"] for one in predictions], [one["text"] for one in targets]
    )


def likelihoods(
    targets: Sequence[Mapping[str, Any]], scores: Sequence[float]
) -> dict[str, float]:
    """Returns `perplexity` and `word_perplexity` of the references: a SeqIO metric_fn.

    Args:
        targets: references as from `postprocess`, with `text` and `tokens`.
        scores: natural log likelihood of each whole reference.
    """
    return scores_of_text.perplexities(
        scores, [one["tokens"] for one in targets], [one["text"] for one in targets]
    )
