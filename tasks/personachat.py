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

from jaxaug.curriculum import persona_levels
from jaxaug.data import personachat
from jaxaug.feed import sets
from jaxaug.feed.tokens import Ends, Ids, Lengths, keep_last_turns
from jaxaug.formats import persona
from jaxaug.metrics import text as scores_of_text
from tasks import vocabulary

ORIGINAL_FRACTION = 0.2
_PREFIXES = {"personachat_": "marked", "personachat_turns_": "turns"}
_FIELDS = ("inputs", "persona", "history", "targets", "dialogue_id", "turn")


def register() -> None:
    """Adds every task and mixture.

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
            sets.add_mixture(f"{prefix}{mixture}", dict(rates))


def _add(
    name: str, splits: Sequence[str], source: Any, options: persona.PersonaOptions
) -> None:
    sets.add(
        PersonaTask(
            name,
            splits,
            vocabulary.default_vocabulary(),
            functools.partial(_fields, source, options),
            postprocess_fn=postprocess,
            metric_fns=[responses, likelihoods],
        )
    )


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
    """Returns the table of a method's levels; `data_dir` is part of the cache key."""
    del data_dir
    return persona_levels.table(method, personachat.traits(personachat.read(split)))


def _fields(
    source: Any, options: persona.PersonaOptions, split: str
) -> list[sets.Fields]:
    dialogues, reword = source(split)
    return [
        {name: getattr(example, name) for name in _FIELDS}
        for dialogue in dialogues
        for example in persona.examples(dialogue, options, reword)
    ]


class PersonaTask(sets.TextTask):
    """A task whose examples keep their persona if the history is too long."""

    loses: ClassVar = {
        "inputs": "their oldest utterances",
        "targets": "the end of the response",
    }
    parts: ClassVar = {"inputs": ("persona", "history"), "targets": ("targets",)}

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Returns the ids of texts; a line break becomes the end of sequence."""
        end = self.output_features["inputs"].vocabulary.eos_id
        lines = [text.split("\n") for text in texts]
        ids = iter(super().encode(list(itertools.chain.from_iterable(lines))))
        found = []
        for own in lines:
            row = next(ids)
            for _ in own[1:]:
                row = [*row, end, *next(ids)]
            found.append(row)
        return found

    @staticmethod
    def cut(fields: Mapping[str, Ids], lengths: Lengths, ends: Ends) -> dict[str, Ids]:
        """Joins persona and history; long inputs lose their oldest utterances.

        The persona is cut only if it alone takes more than half of the room. It then
        keeps its beginning.
        """
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
