"""Steps at which a run saves, evaluates, or writes metrics."""

import bisect
import dataclasses
from collections.abc import Sequence

from t5x import checks
from t5x.errors import UserError

_NEVER = "; 0 means never"


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The stops of a run. Periods count from `first_step`; 0 means never.

    Attributes:
        first_step: step at which the run began (not where it was resumed).
        total_steps: step at which it ends.
        eval_period, checkpoint_period, gc_period: steps between evaluations,
            checkpoints, and garbage collections.
        stats_period: steps over which training metrics are averaged.
        checkpoint_steps: additional single steps at which to save.
        unit: steps of one round; every period is a multiple of it.
    """

    first_step: int
    total_steps: int
    eval_period: int
    checkpoint_period: int
    gc_period: int
    stats_period: int
    checkpoint_steps: tuple[int, ...]
    unit: int

    def next_stop(self, step: int) -> int:
        """Returns the next pause: a checkpoint, or end of a round or stats period."""
        rounds = (step - self.first_step) // self.unit + 1
        round_end = self.first_step + rounds * self.unit
        stop = min(round_end, self.total_steps, step + self.stats_period)
        later = bisect.bisect_right(self.checkpoint_steps, step)
        if later < len(self.checkpoint_steps):
            stop = min(stop, self.checkpoint_steps[later])
        return stop

    def _due(self, period: int, step: int) -> bool:
        return bool(period) and (
            step == self.total_steps or (step - self.first_step) % period == 0
        )

    def evaluates_at(self, step: int) -> bool:
        """Returns whether an evaluation follows this step; the last step has one."""
        return self._due(self.eval_period, step)

    def evaluations_after(self, step: int) -> int:
        """Returns the number of evaluations after steps above `step`."""
        period = self.eval_period
        if not period or step >= self.total_steps:
            return 0
        done = max(step - self.first_step, 0) // period
        return -(-(self.total_steps - self.first_step) // period) - done

    def collects_at(self, step: int) -> bool:
        """Returns whether the garbage collector runs after this step."""
        return self._due(self.gc_period, step)

    def saves_at(self, step: int) -> bool:
        """Returns whether a checkpoint is due after this step (always the last)."""
        wanted = self.checkpoint_period or self.checkpoint_steps
        if wanted and step == self.total_steps:
            return True
        return self._due(self.checkpoint_period, step) or step in self.checkpoint_steps


def make_schedule(
    first_step: int,
    total_steps: int,
    *,
    eval_period: int | None = 0,
    checkpoint_period: int | None = 0,
    gc_period: int = 0,
    stats_period: int | None = None,
    checkpoint_steps: Sequence[int] | None = (),
) -> Schedule:
    """Checks the periods and returns the schedule.

    The round is the shortest of the evaluation, checkpoint, and gc periods, or the
    whole run if all are 0. `stats_period` defaults to the round.

    Raises:
        UserError: a period is not a multiple of the round, or not a whole number.
    """
    periods = {
        name: checks.whole_number(name, period or 0, least=0, hint=_NEVER)
        for name, period in (
            ("eval_period", eval_period),
            ("SaveCheckpointConfig.period", checkpoint_period),
            ("gc_period", gc_period),
        )
    }
    stats_period = checks.whole_number("stats_period", stats_period or 0, least=0)
    steps = [
        checks.whole_number("SaveCheckpointConfig.checkpoint_steps", step, least=0)
        for step in checkpoint_steps or ()
    ]
    unit = min((p for p in periods.values() if p), default=max(total_steps, 1))
    for name, period in periods.items():
        if period % unit:
            shortest = next(n for n, p in periods.items() if p == unit)
            raise UserError(
                f"Checkpoint period ({checkpoint_period}), eval period "
                f"({eval_period}), "
                f"and GC period ({gc_period}) must all be multiples of each other: "
                f"{name} = {period} is not a multiple of {shortest} = {unit}."
            )
    return Schedule(
        first_step=first_step,
        total_steps=total_steps,
        eval_period=periods["eval_period"],
        checkpoint_period=periods["SaveCheckpointConfig.period"],
        gc_period=periods["gc_period"],
        stats_period=stats_period or unit,
        checkpoint_steps=tuple(sorted(steps)),
        unit=unit,
    )
