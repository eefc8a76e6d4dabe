"""Schedules in training steps that a reader of the data counts in examples."""

import dataclasses
from dataclasses import dataclass
from typing import Self

from jaxaug.core.errors import UserError
from jaxaug.curriculum.schedule import Schedule, in_examples, staged


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A schedule in training steps, which can be converted to examples of a shard.

    Attributes:
        batch_size: rows of a global batch.
        examples_per_row: for each level, mean number of examples per row; empty means
            1.
        num_hosts: number of shards of the data; None means the reader's number.
    """

    batch_size: int
    examples_per_row: tuple[float, ...]
    num_hosts: int | None

    def read_by(self, batch_size: int, per_row: tuple[float, ...]) -> Self:
        """Returns the same schedule with the numbers of one reader."""
        return dataclasses.replace(
            self, batch_size=batch_size, examples_per_row=per_row
        )

    def _of_rows(self, schedule: Schedule, rows_per_step: int) -> Schedule:
        per_row = self.examples_per_row or (1.0,) * (schedule.levels + 1)
        return in_examples(schedule, rows_per_step, per_row)


@dataclass(frozen=True, kw_only=True)
class InSteps(Counted):
    """Stages that end at steps.

    Attributes:
        in_steps: the schedule in steps.
    """

    in_steps: Schedule

    def in_examples(self, shards: int) -> Schedule:
        """Returns the schedule in examples of one of `shards` shards.

        Raises:
            UserError: the batch size is not divisible by `shards`; or see the function
                `in_examples`.
        """
        if self.batch_size % shards:
            raise UserError(
                f"curriculum: batch_size {self.batch_size} does not divide by {shards} "
                "hosts"
            )
        return self._of_rows(self.in_steps, self.batch_size // shards)


@dataclass(frozen=True, kw_only=True)
class InShares(Counted):
    """Stages that end at shares of all steps of a run.

    Attributes:
        steps: number of training steps of the run.
        stage_ends: end of each stage except the last, as a share of `steps`, 0 to 1.
        stage_weights: for each stage, one weight per level.
    """

    steps: int
    stage_ends: tuple[float, ...]
    stage_weights: tuple[tuple[float, ...], ...]

    @property
    def in_steps(self) -> Schedule:
        """The schedule in steps."""
        return self._ending(self.steps)

    def in_examples(self, shards: int) -> Schedule:
        """Returns the schedule in examples of one of `shards` shards.

        Raises:
            UserError: see the function `in_examples`.
        """
        rows = round(self.steps * self.batch_size / shards)
        return self._of_rows(self._ending(rows), 1)

    def _ending(self, total: int) -> Schedule:
        ends = [*(round(end * total) for end in self.stage_ends), total]
        return staged(ends, self.stage_weights)
