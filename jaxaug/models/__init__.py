"""Model families as flax.linen modules, one a file, and what makes them usable.

`weights` reads and writes published weights, `named` knows models by name,
`tokenizers` reads theirs, `text.registry.load` puts the three together; `scorers`
judge pairs of texts; `dialogue` has the networks of a single paper.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "named.catalogue": ["CATALOGUE"],
        "text.registry": ["TextModel", "load"],
        "text.language": ["LanguageModel"],
        "tokenizers.hf": ["Tokenizer"],
    },
)
