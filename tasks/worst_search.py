"""The search for the worst wordings during training; see `tasks.worst`."""

import functools
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import jax
import numpy as np
from etils import epath

from jaxaug.augment.output import records
from jaxaug.core.buckets import check_finite
from jaxaug.core.errors import UserError
from jaxaug.core.typed import Range, bounded
from jaxaug.data import sgd
from jaxaug.data.dialogue import Dialogue, Turn
from jaxaug.data.schema import Schema, Service
from jaxaug.feed import batches
from jaxaug.track import attack, rewordings
from jaxaug.track.rewordings import Texts
from tasks import worst

_ROWS, _FILLED = 16, 4  # most inputs of a batch; it has a multiple of 4 rows
# A scored row takes about a third of the time of a trained row; half of it is left for
# formatting.
_SCORED_PER_TRAINED = 1.5

ScoreBatch = Callable[[batches.Batch], Any]
"""Function from features of a model to the log-likelihood of each row."""


class Search:
    """Searches the wordings of the next round: an action of T5X after training.

    It has the method of `t5x.trainer.BaseAction`.
    """

    @bounded
    def __init__(
        self,
        model: Any,
        dataset_cfg: Any,
        model_dir: str,
        period: Annotated[int, Range(1)],
        candidates: Annotated[int, Range(1)] = 4,
    ) -> None:
        """
        Args:
            period: steps of a round.
            candidates: tried rewordings of each slot description.
        """
        self._model, self._cfg, self._period = model, dataset_cfg, period
        self._candidates, self._dir = candidates, epath.Path(model_dir)
        self._score = jax.jit(model.score_batch)
        self._since = time.monotonic()

    def run(self, train_state: Any, metrics_by_task: Mapping[str, Any]) -> bool:
        """Writes the wordings of a round if one ends with this step."""
        del metrics_by_task
        step = int(train_state.step)
        number, rest = divmod(step - worst.first_step(self._dir), self._period)
        folder = self._dir / worst.FOLDER
        if rest or not number or worst.round_file(folder, number).exists():
            return False
        start = time.monotonic()
        # Models with an adapter keep the base there.
        base = train_state.flax_mutables
        more = {"flax_mutables": base} if base else {}
        score = functools.partial(self._score, train_state.params, **more)
        task, schema, texts, scored = self._worst(score, number)
        corpus = task.recipes["train"].corpus
        place = corpus.data_dir, "train", schema
        in_split = rewordings.in_split(schema, "train", texts)
        records.write_variants(folder, *place, [in_split], first=number)
        end = time.monotonic()
        print(
            f"step {step:,}  worst wordings {number}: {scored:,} inputs scored in "
            f"{end - start:.1f} s; training took {start - self._since:.1f} s",
            file=sys.stderr,
        )
        self._since = end
        return False

    def _worst(
        self, score_batch: ScoreBatch, number: int
    ) -> tuple[Any, Schema, dict[str, dict[str, str]], int]:
        """Returns the original set, its schema, the worst texts, and the inputs."""
        task = worst.base_sets(self._cfg)[0]
        recipe = task.recipes["train"]
        corpus, options = recipe.corpus, recipe.options
        schema = sgd.read_schema_of(corpus.data_dir, corpus.split)
        every = list(sgd.read_dialogues(corpus.data_dir, corpus.split))
        seed = f"{self._cfg.seed} {number}"
        choices = {
            one.name: rewordings.sampled(one, self._candidates, seed)
            for one in schema.services
            if any(one.name in dialogue.services for dialogue in every)
        }
        tried = sum(
            1 + sum(len(texts) - 1 for _, texts in found) for found in choices.values()
        )
        per_frame = max(len(one.slots) for one in schema.services)
        inputs = tried * (per_frame if options.per_slot else 1)
        budget = int(_SCORED_PER_TRAINED * self._period * self._cfg.batch_size)
        if (frames := budget // inputs) < 1:
            raise UserError(
                f"worst wordings: a search scores at least {inputs:,} inputs, and a "
                f"round of {self._period} steps allows {budget:,}. Increase "
                "WORST_PERIOD, or decrease WORST_CANDIDATES."
            )
        found, scored = {}, 0
        for name, own in choices.items():
            sample = _sample(every, name, frames, f"{seed} {name}")
            if sample and own:
                score = _Score(self, score_batch, task, schema.service(name), sample)
                found[name] = attack.search(own, score, beam=1)[0]
                scored += score.scored
        return task, schema, found, scored

    def log_likelihoods(
        self, score_batch: ScoreBatch, task: Any, pairs: Sequence[tuple[str, str]]
    ) -> list[float]:
        """Returns the log-likelihood of the target in each pair (input, target)."""
        lengths = self._cfg.task_feature_lengths
        classes = [cls.__name__ for cls in type(self._model).__mro__]
        is_prefix = "DecoderOnlyModel" in classes
        layout = batches.layout_of("prefix_lm" if is_prefix else "enc_dec")
        features = task.output_features
        ends = {name: features[name].vocabulary.eos_id for name in lengths}
        rows = [
            task.cut(
                {
                    name: np.array(features[name].vocabulary.encode(text), np.int32)
                    for name, text in zip(("inputs", "targets"), pair, strict=True)
                },
                lengths,
                ends,
            )
            for pair in pairs
        ]
        found: list[float] = []
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            # Few shapes are compiled, and few rows are padding.
            filled = [[row] for row in part + part[:1] * (-len(part) % _FILLED)]
            scores = np.asarray(score_batch(layout.fill(filled, lengths, False)))
            check_finite(scores, "the trained model")
            found += scores[: len(part)].tolist()
        return found


class _Score:
    """Mean log-likelihood of the annotated answers about a service, by its wording.

    Attributes:
        scored: number of scored inputs.
    """

    def __init__(
        self,
        search: Search,
        score_batch: ScoreBatch,
        task: Any,
        service: Service,
        sample: Sequence[Dialogue],
    ) -> None:
        self._search, self._score_batch, self._task = search, score_batch, task
        self._service, self._sample, self.scored = service, sample, 0

    def __call__(self, texts: Texts) -> float:
        schema = Schema((rewordings.worded(self._service, texts),))
        formatter = self._task.recipes["train"].options.formatter(schema)
        found = [one for each in self._sample for one in formatter.dialogue(each)]
        pairs = [(one.inputs, one.targets) for one in found]
        self.scored += len(pairs)
        scores = self._search.log_likelihoods(self._score_batch, self._task, pairs)
        return sum(scores) / len(self._sample)


def _sample(
    every: Sequence[Dialogue], name: str, count: int, seed: str
) -> list[Dialogue]:
    """Returns beginnings of random dialogues, with a frame in the last turn only."""
    draw = random.Random(seed)
    near = [one for one in every if name in one.services]
    own = rewordings.about_service(near, name)
    found = []
    for one in draw.sample(own, min(count, len(own))):
        last = draw.choice([n for n, turn in enumerate(one.turns) if turn.frames])
        before = (Turn(t.speaker, t.utterance, ()) for t in one.turns[:last])
        turns = (*before, one.turns[last])
        found.append(Dialogue(one.dialogue_id, one.services, turns))
    return found
