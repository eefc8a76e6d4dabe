"""Curricula: which data a model sees at which step.

`schedule` has the schedules as pure functions of the step, and `mixture` passes their
rates to SeqIO. `difficulty`, `levels`, and `generate` sort paraphrases by their
distance from the source text.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "difficulty": ["kept"],
        "levels": ["Levelled", "Scored", "levelled"],
        "schedule": [
            "Schedule",
            "cyclic",
            "gradual",
            "inverse",
            "inverse_cyclic",
            "staged",
            "two_stage",
        ],
    },
)
