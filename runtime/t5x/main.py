"""`python -m t5x.main --run_mode=train|eval|infer`: one program for all modes."""

if __name__ == "__main__":
    # Before imports that take seconds.
    import sys

    from t5x.start import macros

    macros.check(sys.argv)

import sys
from collections.abc import Callable
from typing import Any

from absl import flags

from t5x.errors import UserError
from t5x.start import program

_MODES = ("train", "eval", "infer")


def _function() -> Callable[..., Any]:
    """Returns the function of the mode; adds it to this module for gin files."""
    mode = flags.FLAGS.run_mode
    if mode is None:
        raise UserError(f"--run_mode must be one of {', '.join(_MODES)}.")
    this = sys.modules[__name__]
    if mode == "infer":
        from t5x import infer

        this.create_task_from_tfexample_file = (  # type: ignore[attr-defined]
            infer.create_task_from_tfexample_file
        )
        function: Callable[..., Any] = infer.infer
    elif mode == "eval":
        from t5x import eval as eval_lib

        function = eval_lib.evaluate
    else:
        from t5x import train

        function = train.train
    function.__module__ = __name__
    setattr(this, function.__name__, function)
    return function


if __name__ == "__main__":
    program.define_flags()
    flags.DEFINE_enum("run_mode", None, _MODES, "What to do.")
    program.run(_function)
