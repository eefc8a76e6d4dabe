"""Schemas of other systems: OpenAPI, tool lists of language models, JSON Schema.

`read_document(path)` gives a `Schema` of SGD with what it cannot hold; `document_of(schema,
format)` gives the document back.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "convert": ["Imported", "document_of", "read_document"],
        "losses": ["Loss"],
    },
)
