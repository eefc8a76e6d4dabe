"""A trained tracker that answers: dialogues in, states out.

    tracker = jaxaug.Tracker.load("runs/d3st_aug", schema="my_schema.json")
    tracker.predict("USER: a table for two in Oslo tonight")

It needs the folder of the run and a schema, and neither splits nor annotation.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "answers": ["FrameState", "Prediction"],
        "tracker": ["Tracker"],
        "combine": ["Agreement"],
        "options": ["Robust"],
        "turns": ["read_dialogues"],
    },
)
