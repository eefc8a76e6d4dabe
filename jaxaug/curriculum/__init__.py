"""Which data a model sees at which step.

`schedule` has the schedules as pure functions of the step, `mixture` hands their rates to
SeqIO; `difficulty`, `levels` and `generate` sort paraphrases by how far they are from
their source.
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
