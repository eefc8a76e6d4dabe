"""Scoring functions without side effects, and the reports that use them.

`dst` and `sensitivity` define joint goal accuracy and schema sensitivity as in the
benchmarks. `evaluate_folder` scores predictions in DSTC8 format. `text` and `diversity`
score free text.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "evaluate": ["evaluate_folder"],
        "predictions": ["Predictions", "read_predictions", "write_predictions"],
        "sensitivity": ["schema_sensitivity"],
        "diversity": ["distinct", "self_bleu"],
        "dst": ["FrameScores", "frame_scores"],
    },
)
