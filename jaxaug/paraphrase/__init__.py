"""Paraphrases of lines of text.

`Decoder` batches by length and decodes with a model and a `Sampler`; `Paraphraser` goes
through a grid of settings; `candidates` merges what came out. `jaxaug paraphrase` is
`run`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "candidates": ["Candidate", "merged"],
        "decoder": ["Decoder", "Output"],
        "generation": ["Paraphraser", "Setting"],
        "samplers": ["SAMPLERS", "Sampler"],
    },
)
