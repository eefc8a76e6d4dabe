"""A SeqIO logger that measures robustness to schema wording.

`tasks.evaluation.evaluator` uses it. Other evaluators bind it in gin:

  seqio.Evaluator.logger_cls = [@seqio.TensorBoardLogger, @seqio.JSONLogger,
                                @report_logger.RobustnessLogger]
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxaug.look.robustness import RobustnessWriter


class RobustnessLogger(RobustnessWriter):
    """`look.robustness.RobustnessWriter` with the interface of `seqio.Logger`."""

    def __call__(
        self,
        task_name: str,
        step: int | None,
        metrics: Mapping[str, Any],
        dataset: Any,
        inferences: Mapping[str, Sequence[Any]] | None,
        targets: Sequence[Any] | None,
    ) -> None:
        """See `seqio.Logger`; ignores tasks that jaxaug has not registered."""
        del metrics, dataset
        answers = (inferences or {}).get("prediction")
        if answers and targets:
            self.add(task_name, -1 if step is None else step, answers)
