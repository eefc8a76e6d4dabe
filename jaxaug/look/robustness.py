"""Robustness to schema wording: scores, predictions, and report of an evaluation."""

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from absl import logging

from jaxaug.core.errors import UserError
from jaxaug.feed import recipes
from jaxaug.feed.cache import Recipe
from jaxaug.formats.answers import FrameAnswer, join
from jaxaug.metrics import benchmark, dst, report, sensitivity
from jaxaug.metrics.evaluate import write_json
from jaxaug.metrics.frames import WORDINGS, FrameTable, write_frames
from jaxaug.metrics.predictions import write_predictions
from jaxaug.metrics.sensitivity import ORIGINAL, VARIANTS


@dataclass(frozen=True)
class _Wording:
    """The part of one task of a step in the report."""

    frames: sensitivity.GroupScores
    report: Mapping[str, Mapping[str, float]]
    total: int  # frames of the split


class RobustnessWriter:
    """Scores the answers to every wording of a schema and writes the robustness report.

    Below `output_dir` it leaves

    - `predictions/<family>-<step>/{original,v1..v5}/dialogues.json`, which `jaxaug
      evaluate sgdx` and the official evaluator read (other tasks: `predictions/
      <task>-<step>/dialogues.json`);
    - `robustness/<family>-<step>.{json,csv,png,frames.npz}` as soon as the tasks of the
      mixture `<family>_eval`, such as `d3st_sgd` and `d3st_sgdx_v1..v5`, have been
      added at one step; it also prints the table. The report says when data have no
      variants.

    Frames are scored against the annotation in the data folder, not against the
    targets' text. If only some frames were evaluated, those are scored and the
    report says how many; dialogues that lack frames are left out of the predictions.
    """

    def __init__(self, output_dir: str):
        self.output_dir = output_dir
        self._benchmarks: dict[Recipe, benchmark.Benchmark] = {}
        self._pending: dict[tuple[str, str], dict[str, _Wording]] = {}
        self._steps: dict[tuple[str, str], int] = {}

    def add(self, task_name: str, step: int, answers: Sequence[FrameAnswer]) -> None:
        """Scores answers to one wording, and writes the report after the last wording.

        Args:
            task_name: a task of `recipes.table()`; other tasks are ignored.
            step: training step; -1 means no step.
        """
        table = recipes.table()
        known = table.recipes.get(task_name)
        if known is None or not answers:
            return
        split = answers[0].split
        recipe = next(r for r in known.values() if r.corpus.split == split)
        reference = self._benchmark(recipe)
        states = _states(answers, recipe, reference)
        family = task_name.partition("_")[0]
        awaited = table.wordings(family, split)
        wording = awaited.get(task_name, "")
        family = family if wording else task_name
        self._write(states, reference, f"{family}-{step:06}", wording)
        if wording in WORDINGS:
            self._score(states, reference, family, split, step, wording)
            key = family, split
        if self._pending[key].keys() >= {*awaited.values()} & {*WORDINGS}:
            self._report(self._pending.pop(key), family, split, step)
            del self._steps[key]

    def _benchmark(self, recipe: Recipe) -> benchmark.Benchmark:
        if recipe not in self._benchmarks:
            corpus = recipe.corpus
            self._benchmarks[recipe] = benchmark.load(
                corpus.data_dir, corpus.split, corpus.variant, corpus.variants_dir
            )
        return self._benchmarks[recipe]

    def _write(
        self,
        states: Mapping[benchmark.FrameKey, dst.StateLike],
        reference: benchmark.Benchmark,
        name: str,
        wording: str,
    ) -> None:
        path = os.path.join(
            self.output_dir, "predictions", name, wording, "dialogues.json"
        )
        partial = write_predictions(path, reference.dialogues.values(), states)
        if partial:
            logging.warning(
                "%s: left out %d dialogues of which some frames were not evaluated "
                "(first: %s).",
                path,
                len(partial),
                partial[0],
            )

    def _score(
        self,
        states: Mapping[benchmark.FrameKey, dst.StateLike],
        reference: benchmark.Benchmark,
        family: str,
        split: str,
        step: int,
        wording: str,
    ) -> None:
        references = [reference.reference(key) for key in states]
        scores = dst.frame_scores(references, list(states.values()), reference.schema)
        key = family, split
        if self._steps.get(key) != step:  # an interrupted evaluation is forgotten
            self._steps[key], self._pending[key] = step, {}
        self._pending[key][wording] = _Wording(
            benchmark.group_scores(reference, states, scores),
            dst.aggregate(scores, reference.seen_services),
            len(benchmark.references_of(reference.dialogues.values())),
        )

    def _report(
        self, wordings: Mapping[str, _Wording], family: str, split: str, step: int
    ) -> None:
        scores = {name: wording.frames for name, wording in wordings.items()}
        figures = sensitivity.robustness(scores)
        total = wordings[ORIGINAL].total
        result = {
            **figures,
            "per_variant": {name: wording.report for name, wording in wordings.items()},
            report.ABOUT: {
                "definitions": dst.DEFINITIONS | sensitivity.DEFINITIONS,
                "family": family,
                "split": split,
                "step": step,
                "frames_of_split": total,
                report.ABSENT: [name for name in VARIANTS if name not in wordings],
                "counts": {
                    n: {"frames": len(w.frames[""])} for n, w in wordings.items()
                },
            },
        }
        name = f"{family}-{step:06}"
        place = os.path.join(self.output_dir, report.REPORT_FOLDER, name)
        write_frames(f"{place}.json", FrameTable.of_scores(split, scores))
        write_json(f"{place}.json", result)
        run = report.Run.of_report(f"{family} step {step}", result)
        report.write_tables([run], f"{place}.csv", None)
        try:
            report.write_png(f"{place}.png", [run])
        except UserError as error:  # a missing extra must not end a training run
            logging.warning("%s", error)
        lines = [report.text_table([run])]
        if figures["frames"] != total:
            lines.append(
                f"PARTIAL: {figures['frames']} of {total} frames of {split!r} were "
                "evaluated under every wording"
            )
        print(
            "\n".join([*lines, f"written: {place}.json"]), file=sys.stdout, flush=True
        )


def _states(
    answers: Sequence[FrameAnswer], recipe: Recipe, reference: benchmark.Benchmark
) -> dict[benchmark.FrameKey, dst.StateLike]:
    """Returns the predicted state of every frame that was evaluated completely."""
    asked = Counter((a.dialogue_id, a.turn, a.frame, a.service) for a in answers)
    states: dict[benchmark.FrameKey, dst.StateLike] = {}
    for key, parsed in join(answers).items():
        dialogue_id, turn, _, service = key
        slots = reference.schema.service(service).slots
        # Evaluation may stop within a frame.
        if recipe.options.per_slot and asked[key] < len(slots):
            continue
        states[dialogue_id, turn, service] = parsed
    return states
