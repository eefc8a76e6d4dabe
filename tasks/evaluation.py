"""Evaluator of dialogue sets; SeqIO's evaluator evaluates other tasks.

Line of a gin file that selects it:

  train_script.train.inference_evaluator_cls = @evaluation.evaluator

Both evaluators write the same files: TensorBoard events, JSON lines, and the robustness
report.
"""

import dataclasses
import functools
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

import gin
import numpy as np
from etils import epath
from jaxaug_base.clu_names import values
from t5x.feed import registered

from jaxaug.core.files import write_text
from jaxaug.feed import batches, sets
from jaxaug.feed.tokens import Lengths
from tasks import dialogues, token_feed
from tasks.report_logger import RobustnessLogger

_CHUNK = 256
_UNDERSTOOD = {
    *("mixture_or_task_name", "feature_converter", "eval_split", "use_cached", "seed"),
    *("sequence_length", "use_memory_cache", "log_dir"),
}
_MOST_SHOWN = 32  # Longer arrays are summarized in JSON lines.


def evaluator(
    *, num_examples: int | None = None, logger_cls: Any = None, **options: Any
) -> Any:
    """Returns an evaluator for T5X's programs.

    The evaluator is a `DialogueEvaluator` for dialogue sets. It is a `seqio.Evaluator`
    for other tasks, for offline caches, if `logger_cls` or an option that only SeqIO
    has is given, and if gin binds a parameter of SeqIO.

    Args:
        num_examples: number of examples of each task; None means all.
        logger_cls: classes of the loggers. None means TensorBoard, JSON lines, and the
            robustness report, unless gin binds `seqio.Evaluator.logger_cls`.
        **options: other arguments of `seqio.Evaluator`.
    """
    layout = token_feed.layout_of(options["feature_converter"])
    lengths = options.get("sequence_length") or {}
    bound = {
        f"{selector}.{name}"
        for (_, selector), values in gin.config._CONFIG.items()
        for name in values
        if selector.startswith("seqio.")
    }
    others = logger_cls or options.get("use_cached") or options.keys() - _UNDERSTOOD
    if layout and {*lengths} == {"inputs", "targets"} and not (bound or others):
        split, rows = options["eval_split"], batches.layout_of(layout)
        read = {
            task: Evaluated(task, split, lengths, rows, num_examples)
            for task in dialogues.with_records(options["mixture_or_task_name"], split)
        }
        if read:
            return DialogueEvaluator(read, options.get("log_dir"))
    import seqio

    registered.names()  # Registers our tasks.
    if num_examples is not None:
        options["num_examples"] = num_examples
    if logger_cls is not None:
        options["logger_cls"] = logger_cls
    elif not any(name.endswith("Evaluator.logger_cls") for name in bound):
        own = map(_configured, (seqio.TensorBoardLogger, seqio.JSONLogger))
        options["logger_cls"] = [*own, RobustnessLogger]
    return _configured(seqio.Evaluator)(**options)


evaluator.find = sets.find  # type: ignore[attr-defined]


def _configured(cls: Any) -> Any:
    """Returns a class with the settings that gin binds to it, if any."""
    try:
        return gin.get_configurable(cls)
    except ValueError:
        return cls


class Evaluated:
    """Examples of a task, in the order of its evaluations.

    Iteration yields (index, model features).

    Attributes:
        fields: the fields of each example before tokenization.
    """

    def __init__(
        self,
        task: sets.Task,
        split: str,
        lengths: Lengths,
        layout: batches.Layout,
        number: int | None = None,
    ):
        """Reads a split.

        Args:
            lengths: maximum number of tokens of `inputs` and `targets`.
            number: number of examples from the start; None means all.
        """
        self._examples = task.examples(split)
        self._lengths, self._layout = lengths, layout
        self._order = task.order(split)[:number]
        fields = task.fields(split)
        self.fields = [fields[index] for index in self._order]

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        for start in range(0, len(self), _CHUNK):
            chunk = self._order[start : start + _CHUNK]
            rows = [[self._examples.get(index, self._lengths)] for index in chunk]
            batch = self._layout.fill(rows, self._lengths, False)
            for row in range(len(chunk)):
                yield start + row, {name: batch[name][row] for name in batch}

    def inputs(self) -> Iterator[dict[str, Any]]:
        """Yields the fields of each example, with the names and order of SeqIO."""
        for index, fields in zip(self._order, self.fields, strict=True):
            ids = self._examples.get(index, self._lengths)
            texts: dict[str, Any] = {}
            for name in ("inputs", "targets"):
                texts |= {f"{name}_pretokenized": fields[name], name: ids[name]}
            yield texts | {k: v for k, v in fields.items() if k not in ids}


class DialogueEvaluator:
    """Evaluates dialogue sets with the interface of `seqio.Evaluator`.

    Attributes:
        cached_model_datasets: maps the name of a set to its examples.
        model_feature_shapes: maps a model feature to its shape in one example.
        events_dir: folder where the T5X programs write TensorBoard events, or None.
    """

    def __init__(self, sets: Mapping[Any, Evaluated], log_dir: str | None):
        """Creates the evaluator of tasks; logs nothing if `log_dir` is None."""
        self.eval_tasks = [*sets]
        examples = {task.name: found for task, found in sets.items()}
        self.cached_model_datasets = examples
        one = next(itertools.chain.from_iterable(examples.values()), (0, {}))[1]
        self.model_feature_shapes = {name: value.shape for name, value in one.items()}
        loggers: list[Any] = [JSONLogger, RobustnessLogger]
        self.events_dir = log_dir
        self._loggers = tuple(logger(log_dir) for logger in loggers if log_dir)
        self._pool = futures.ThreadPoolExecutor(max_workers=1)
        self._pending: futures.Future = futures.Future()
        self._pending.set_result(None)

    def close(self) -> None:
        """Waits for pending metrics."""
        self._pool.shutdown(wait=True)

    def evaluate(
        self, *, compute_metrics: bool, step: int | None, predict_fn: Any, **unused: Any
    ) -> tuple[futures.Future, Mapping[str, Sequence[Any]]]:
        """Predicts outputs; computes and logs their metrics in the background.

        Args:
            step: training step of the model, for the logs.
            predict_fn: function from examples to pairs (index, token ids).

        Returns:
            A future of a mapping from task and metric names to values, and a mapping
            from task names to the token ids of the predictions. Without
            `compute_metrics` the future belongs to the previous evaluation.
        """
        del unused
        outputs = {}
        for name, examples in self.cached_model_datasets.items():
            found = sorted(predict_fn(examples), key=lambda each: each[0])
            outputs[name] = [ids for _, ids in found]
        # Raises the error of the last evaluation.
        self._pending.result()
        if not compute_metrics:
            return self._pending, outputs
        done = self._pool.submit(self._all_metrics, outputs, step)
        self._pending = done
        return done, outputs

    def _all_metrics(
        self, outputs: Mapping[str, Sequence[Any]], step: int | None
    ) -> dict[str, dict[str, float]]:
        return {
            task.name: self._metrics(task, outputs[task.name], step)
            for task in self.eval_tasks
        }

    def _metrics(
        self, task: Any, outputs: Sequence[Any], step: int | None
    ) -> dict[str, float]:
        examples = self.cached_model_datasets[task.name]
        words = task.output_features["targets"].vocabulary
        texts = [_decoded(words, ids) for ids in outputs]
        targets, answers = [], []
        for text, fields in zip(texts, examples.fields, strict=True):
            read = functools.partial(task.postprocess_fn, example=fields)
            targets.append(read(fields["targets"], is_target=True))
            answers.append(read(text))
        metrics: dict[str, float] = {}
        for metric_fn in task.metric_fns:
            metrics |= metric_fn(targets, answers)
        for logger in self._loggers:
            logger(
                task_name=task.name,
                step=step,
                metrics={k: values.Scalar(v) for k, v in metrics.items()},
                dataset=examples.inputs(),
                inferences={"output": texts, "prediction": answers},
                targets=targets,
            )
        return metrics


def _decoded(words: Any, ids: Sequence[Any]) -> Any:
    """Returns the text of token ids, or a list of texts for several sequences."""
    if len(ids) and isinstance(ids[0], Sequence):
        return [words.decode(each) for each in ids]
    return words.decode(ids)


class JSONLogger:
    """Writes metrics and predictions in the format of `seqio.JSONLogger`."""

    def __init__(self, output_dir: str):
        self.output_dir = output_dir

    def __call__(
        self,
        task_name: str,
        step: int | None,
        metrics: Mapping[str, Any],
        dataset: Any,
        inferences: Mapping[str, Sequence[Any]],
        targets: Sequence[Any],
    ) -> None:
        """See `seqio.Logger`."""
        step = -1 if step is None else step
        path = epath.Path(self.output_dir) / f"{task_name}-metrics.jsonl"
        values = {name: value.value for name, value in metrics.items()}
        old = path.read_text() if path.exists() else ""
        if values:
            write_text(path, f"{old}{_json({'step': step} | values)}\n")
        found = zip(dataset, targets, *inferences.values(), strict=True)
        names = "input", "target", *inferences
        lines = [_json(dict(zip(names, each, strict=True))) + "\n" for each in found]
        if lines:
            write_text(path.with_name(f"{task_name}-{step:06}.jsonl"), "".join(lines))


def _json(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, default=_plain)


def _plain(value: Any) -> Any:
    """Converts a value to JSON types as SeqIO does."""
    if isinstance(value, (np.ndarray, np.generic)):
        if value.size <= _MOST_SHOWN:
            return value.tolist()
        flat = value.reshape(-1).tolist()
        return (
            f"ndarray(shape={value.shape}, dtype={value.dtype}); "
            f"summary: {str(flat[:5])[1:-1]} ... {str(flat[-5:])[1:-1]}"
        )
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value, dict_factory=_without_none)
    raise TypeError(f"{type(value).__name__} is not JSON serializable")


def _without_none(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in fields if value is not None}
