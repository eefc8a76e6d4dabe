"""Search for the next of `SaveCheckpointConfig.checkpoint_steps`."""

from collections.abc import Sequence


def find_first_checkpoint_step(
    checkpoint_steps_index: int,
    checkpoint_steps: Sequence[int],
    first_step: int,
    host_step: int,
) -> int:
    """Returns the index of the first step >= `host_step` that is not `first_step`.

    The search starts at `checkpoint_steps_index`. If all steps are past, the last index
    is returned.
    """
    for i in range(checkpoint_steps_index, len(checkpoint_steps)):
        step = checkpoint_steps[i]
        if step >= host_step and step != first_step:
            return i
    return max(checkpoint_steps_index, len(checkpoint_steps) - 1)


def find_next_checkpoint_step(
    checkpoint_steps_index: int,
    inner_num_steps: int,
    is_checkpoint_step: bool,
    host_step: int,
    checkpoint_steps: Sequence[int],
    epoch_end_step: int,
    checkpoint_period: int | None,
    first_step: int,
) -> tuple[int, bool]:
    """Shortens a stretch of training so that it ends at the next checkpoint step.

    Steps that the period saves anyway are skipped. If the period is None or 0, only
    `checkpoint_steps` are saved.

    Args:
        checkpoint_steps_index: start index in `checkpoint_steps`.
        inner_num_steps: length of the stretch in steps.
        is_checkpoint_step: value to return if no step is found.
        host_step: current step.
        checkpoint_steps: steps to save at, ascending.
        epoch_end_step: last step of the current epoch.
        checkpoint_period: steps between ordinary checkpoints.
        first_step: step at which the run started.

    Returns:
        (number of steps to train now, whether to save after them).
    """
    for step in checkpoint_steps[checkpoint_steps_index:]:
        if step > min(host_step + inner_num_steps, epoch_end_step):
            break
        periodic = checkpoint_period and (step - first_step) % checkpoint_period == 0
        if step > max(first_step, host_step) and not periodic:
            return step - host_step, True
    return inner_num_steps, is_checkpoint_step
