"""Postprocessing and metrics of dialogue state tracking tasks."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from jaxaug.data import sgd
from jaxaug.data.schema import Schema
from jaxaug.feed.cache import Recipe
from jaxaug.formats import d3st, t5dst
from jaxaug.formats.answers import FrameAnswer, join, postprocessor
from jaxaug.metrics import dst, multiwoz

d3st_postprocess = postprocessor(d3st.parse)
t5dst_postprocess = postprocessor(t5dst.parse)


def goal_metrics(
    recipes: Mapping[str, Recipe],
) -> Callable[[Sequence[FrameAnswer], Sequence[FrameAnswer]], dict[str, float]]:
    """Returns the SeqIO metric_fn of a task: joint goal accuracy and more, in percent.

    Answers about the same frame (one per slot in T5DST) are joined first. The scores
    come from `jaxaug.metrics.dst` with fuzzy matching. `multiwoz_jga` comes from
    `jaxaug.metrics.multiwoz`, over turns and exact. `malformed` is the mean number of
    unusable pieces per frame.

    Args:
        recipes: SeqIO split -> recipe of the task; determines the schemas for scoring.
    """
    corpora = {recipe.corpus.split: recipe.corpus for recipe in recipes.values()}
    schemas: dict[str, Schema] = {}

    def metrics(
        targets: Sequence[FrameAnswer], predictions: Sequence[FrameAnswer]
    ) -> dict[str, float]:
        if not targets:
            return {}
        split = targets[0].split
        corpus = corpora[split]
        for name in {split, "train"} - schemas.keys():
            if name in corpora:
                schemas[name] = sgd.read_schema_of(
                    corpus.data_dir, name, corpus.variant, corpus.variants_dir
                )
        frames = join(targets)
        references = [
            dst.Reference(key[0], key[1], key[3], state)
            for key, state in frames.items()
        ]
        predicted = join(predictions)
        answers = [predicted[key] for key in frames]
        scores = dst.frame_scores(references, answers, schemas[split])
        result = _percentages(scores, schemas.get("train"))
        as_multiwoz = multiwoz.accuracies(references, answers, schemas[split])
        result["multiwoz_jga"] = 100.0 * as_multiwoz["joint_goal_accuracy"]
        result["malformed"] = float(np.mean([item.malformed for item in answers]))
        return result

    return metrics


def _percentages(scores: dst.FrameScores, train: Schema | None) -> dict[str, float]:
    seen = [service.name for service in train.services] if train else []
    groups = dst.aggregate(scores, seen)
    result = {name: 100.0 * value for name, value in groups[dst.ALL_SERVICES].items()}
    for group, suffix in ((dst.SEEN_SERVICES, "seen"), (dst.UNSEEN_SERVICES, "unseen")):
        if train and dst.JGA in groups.get(group, {}):
            result[f"{dst.JGA}_{suffix}"] = 100.0 * groups[group][dst.JGA]
    return result
