"""A SeqIO logger that measures robustness to schema wording.

It is bound in gin next to SeqIO's own loggers:

  seqio.Evaluator.logger_cls = [@seqio.TensorBoardLogger, @seqio.JSONLogger,
                                @report_logger.RobustnessLogger]
"""

from collections.abc import Mapping, Sequence
from typing import Any

import seqio

from jaxaug.look.robustness import RobustnessWriter


class RobustnessLogger(seqio.Logger):
    """`jaxaug.look.robustness.RobustnessWriter` as a SeqIO logger."""

    def __init__(self, output_dir: str):
        super().__init__(output_dir)
        self._writer = RobustnessWriter(output_dir)

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
            self._writer.add(task_name, -1 if step is None else step, answers)
