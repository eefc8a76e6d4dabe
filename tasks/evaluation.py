"""The evaluator of the dialogue sets, and SeqIO's evaluator for other tasks.

  train_script.train.inference_evaluator_cls = @evaluation.evaluator

Both write the same files: TensorBoard events, JSON lines, and the robustness report.
"""

import dataclasses
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

import gin
import numpy as np
from etils import epath

from jaxaug.core.files import write_text
from jaxaug.feed import layouts
from jaxaug.feed.examples import Examples, Lengths
from tasks import dialogues, token_feed
from tasks.report_logger import RobustnessLogger

_CHUNK = 256
_MOST_SHOWN = 32  # Longer arrays are summarized in JSON lines.


def evaluator(
    mixture_or_task_name: str,
    feature_converter: Any,
    eval_split: str = "validation",
    use_cached: bool = False,
    sequence_length: Lengths | None = None,
    logger_cls: Sequence[Any] | None = None,
    log_dir: str | None = None,
    num_examples: int | None = None,
    **options: Any,
) -> Any:
    """Returns an evaluator for T5X's programs.

    It is `DialogueEvaluator` for sets that are found without SeqIO (see
    `tasks.dialogues.find`), and otherwise `seqio.Evaluator` with its settings in gin.

    Args:
        mixture_or_task_name: what to evaluate on.
        feature_converter: feature converter of the model.
        eval_split: split to evaluate on.
        use_cached: whether to read offline caches, which needs SeqIO.
        sequence_length: feature -> maximum tokens; None cuts nothing.
        logger_cls: loggers; by default TensorBoard, JSON lines, and the robustness
            report, unless gin binds `seqio.Evaluator.logger_cls`.
        log_dir: folder of the results.
        num_examples: number of examples of each task; None means all.
        **options: further arguments of `seqio.Evaluator`.
    """
    source = None
    if not (use_cached or logger_cls):
        source = dialogues.find(mixture_or_task_name)
    layout = token_feed.layout_named(getattr(feature_converter, "kind", None))
    if source is not None and layout is not None:
        writes = logger_cls is None and log_dir
        return DialogueEvaluator(
            [task for task in source.tasks if eval_split in task.splits],
            layouts.find(layout),
            eval_split,
            sequence_length,
            log_dir if writes else None,
            num_examples,
        )
    import seqio

    if logger_cls is None and not _binds_loggers():
        own = [seqio.TensorBoardLogger, seqio.JSONLogger]
        logger_cls = [*map(_configured, own), RobustnessLogger]
    given = {"logger_cls": logger_cls, "num_examples": num_examples}
    return _configured(seqio.Evaluator)(
        mixture_or_task_name=mixture_or_task_name,
        feature_converter=feature_converter,
        eval_split=eval_split,
        use_cached=use_cached,
        sequence_length=sequence_length,
        log_dir=log_dir,
        **options,
        **{name: value for name, value in given.items() if value is not None},
    )


def _configured(cls: Any) -> Any:
    """Returns a class with the settings that gin binds to it, if any."""
    try:
        return gin.get_configurable(cls)
    except ValueError:
        return cls


def _binds_loggers() -> bool:
    try:
        gin.query_parameter("seqio.Evaluator.logger_cls")
    except ValueError:
        return False
    return True


class _Evaluated:
    """The examples of one set, in the order of SeqIO's pipeline.

    Iteration yields (index, model features); `task_examples` has the text.
    """

    def __init__(
        self,
        task: dialogues.DialogueSet,
        split: str,
        lengths: Lengths | None,
        number: int | None,
    ):
        self._examples: Examples = task.examples(split)
        self._order, self._fields = task.in_order(split, number)
        whole = self._examples.whole_lengths()
        self.longest = {
            name: int(max(found[self._order], default=0))
            for name, found in whole.items()
        }
        self._lengths = lengths
        self.lengths: Lengths = lengths or self.longest
        self.layout: Any = None

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        for start in range(0, len(self), _CHUNK):
            chunk = self._order[start : start + _CHUNK]
            rows = [[self._examples.get(index, self.lengths)] for index in chunk]
            batch = self.layout.fill(rows, self.lengths, pack=False)
            for number in range(len(chunk)):
                yield start + number, {k: v[number] for k, v in batch.items()}

    def task_examples(self) -> Iterator[dict[str, Any]]:
        """Yields the fields of the examples, with the names that SeqIO gives them."""
        for index, fields in zip(self._order, self._fields, strict=True):
            ids = self._examples.get(index, self._lengths or self.lengths)
            yield {
                "inputs_pretokenized": fields["inputs"],
                "inputs": ids["inputs"],
                "targets_pretokenized": fields["targets"],
                "targets": ids["targets"],
                **{k: v for k, v in fields.items() if k not in ids},
            }

    def fields(self) -> Sequence[Mapping[str, Any]]:
        """Returns the fields of the examples before tokenization."""
        return self._fields


class DialogueEvaluator:
    """Evaluates dialogue sets with the interface of `seqio.Evaluator`.

    Attributes:
        eval_tasks: the sets.
        cached_model_datasets: name of a set -> (index, model features) of its examples.
        model_feature_shapes: model feature -> shape for one example.
        events_dir: folder for TensorBoard events of the metrics, or None. The T5X
            program adds the logger that writes them.
    """

    def __init__(
        self,
        tasks: Sequence[dialogues.DialogueSet],
        layout: layouts.Layout,
        split: str,
        lengths: Lengths | None,
        log_dir: str | None,
        num_examples: int | None = None,
    ):
        """Reads the examples; see `evaluator` for the arguments."""
        self.eval_tasks = list(tasks)
        self.cached_model_datasets = {
            task.name: _Evaluated(task, split, lengths, num_examples) for task in tasks
        }
        found = self.cached_model_datasets.values()
        longest = {
            name: max(one.longest[name] for one in found)
            for name in ("inputs", "targets")
            if found
        }
        for one in found:
            one.layout, one.lengths = layout, {**longest, **(lengths or {})}
        self.model_feature_shapes = {
            name: value.shape
            for one in itertools.islice(filter(len, found), 1)
            for name, value in next(iter(one))[1].items()
        }
        self.events_dir = log_dir
        self._loggers: tuple[Any, ...] = ()
        if log_dir:
            self._loggers = JSONLogger(log_dir), RobustnessLogger(log_dir)
        self._targets: dict[str, list[Any]] = {}
        self._pool = futures.ThreadPoolExecutor(max_workers=1)
        self._pending: futures.Future | None = None

    def close(self) -> None:
        """Waits for pending metrics."""
        self._pool.shutdown(wait=True)

    def evaluate(
        self,
        *,
        compute_metrics: bool,
        step: int | None = None,
        predict_fn: Any,
        **unused: Any,
    ) -> tuple[futures.Future, Mapping[str, Sequence[Any]]]:
        """Predicts, and computes and logs metrics in the background.

        Returns:
            Future of task name -> metric name -> value (None if `compute_metrics` is
            False), and task name -> tokens of the predictions.
        """
        del unused
        outputs: dict[str, Sequence[Any]] = {}
        for task in self.eval_tasks:
            found = predict_fn(self.cached_model_datasets[task.name])
            outputs[task.name] = [ids for _, ids in sorted(found, key=lambda x: x[0])]
        if not compute_metrics:
            nothing: futures.Future = futures.Future()
            nothing.set_result(None)
            return nothing, outputs
        if self._pending is not None:
            self._pending.result()  # Raises the error of the last evaluation.
        self._pending = self._pool.submit(self._all_metrics, outputs, step)
        return self._pending, outputs

    def _all_metrics(
        self, outputs: Mapping[str, Sequence[Any]], step: int | None
    ) -> dict[str, dict[str, float]]:
        return {
            task.name: self._metrics(task, outputs[task.name], step)
            for task in self.eval_tasks
        }

    def _metrics(
        self, task: dialogues.DialogueSet, outputs: Sequence[Any], step: int | None
    ) -> dict[str, float]:
        import clu.values

        data = self.cached_model_datasets[task.name]
        words = task.output_features["targets"].vocabulary
        texts = [_decoded(words, ids) for ids in outputs]
        fields, postprocess = data.fields(), task.postprocess_fn
        if task.name not in self._targets:
            self._targets[task.name] = [
                postprocess(one["targets"], example=one, is_target=True)
                for one in fields
            ]
        targets = self._targets[task.name]
        answers = [
            postprocess(text, example=one)
            for text, one in zip(texts, fields, strict=True)
        ]
        metrics = task.metric_fn(targets, answers)
        for logger in self._loggers:
            logger(
                task_name=task.name,
                step=step,
                metrics={name: clu.values.Scalar(v) for name, v in metrics.items()},
                dataset=data.task_examples(),
                inferences={"output": texts, "prediction": answers},
                targets=targets,
            )
        return metrics


def _decoded(words: Any, ids: Sequence[Any]) -> Any:
    """Returns the text of the ids; a list for several sequences."""
    if len(ids) and isinstance(ids[0], Sequence):
        return [words.decode(each) for each in ids]
    return words.decode(ids)


class JSONLogger:
    """Writes metrics and predictions in the format of `seqio.JSONLogger`.

    A step that is evaluated again replaces its line of metrics.
    """

    def __init__(self, output_dir: str):
        self.output_dir = output_dir

    def __call__(
        self,
        task_name: str,
        step: int | None,
        metrics: Mapping[str, Any],
        dataset: Any,
        inferences: Mapping[str, Sequence[Any]] | None,
        targets: Sequence[Any] | None,
    ) -> None:
        """See `seqio.Logger`."""
        step = -1 if step is None else step
        values = {name: value.value for name, value in metrics.items()}
        self._write_metrics(task_name, step, values)
        if not inferences or not targets:
            return
        lines = []
        for example, target, *found in zip(
            dataset, targets, *inferences.values(), strict=True
        ):
            results = dict(zip(inferences, found, strict=True))
            line = {"input": example, "target": target, **results}
            lines.append(json.dumps(line, default=_plain) + "\n")
        path = os.path.join(self.output_dir, f"{task_name}-{step:06}.jsonl")
        write_text(path, "".join(lines))

    def _write_metrics(
        self, task_name: str, step: int, values: Mapping[str, Any]
    ) -> None:
        if not values:
            return
        path = epath.Path(self.output_dir) / f"{task_name}-metrics.jsonl"
        old = path.read_text().splitlines(keepends=True) if path.exists() else []
        kept = [line for line in old if _step_of(line) != step]
        line = json.dumps({"step": step, **values}, default=_plain)
        write_text(path, "".join([*kept, line + "\n"]))


def _step_of(line: str) -> Any:
    """Returns the step of a line of metrics; None for a damaged line, which is kept."""
    try:
        return json.loads(line)["step"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _plain(value: Any) -> Any:
    """Converts a value to JSON types as SeqIO does."""
    if isinstance(value, np.ndarray):
        if value.size <= _MOST_SHOWN:
            return value.tolist()
        flat = value.reshape(-1)
        first, last = (str(part.tolist())[1:-1] for part in (flat[:5], flat[-5:]))
        return (
            f"ndarray(shape={value.shape}, dtype={value.dtype}); "
            f"summary: {first} ... {last}"
        )
    if isinstance(value, np.generic):
        return value.item()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value, dict_factory=_without_none)
    raise TypeError(f"{type(value).__name__} is not JSON serializable")


def _without_none(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in fields if value is not None}
