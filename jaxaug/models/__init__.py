"""Model families as flax.linen modules, with their weights, tokenizers, and tools.

`weights` reads and writes published weights. `named` finds models by name, and
`tokenizers` reads their tokenizers. `text.registry.load` combines the three. `scorers`
rates pairs of texts, and `lora` adapts models. `endpoint` asks models behind a server.
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
