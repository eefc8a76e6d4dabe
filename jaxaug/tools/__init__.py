"""Converts OpenAPI, tool lists of language models, and JSON Schema to schemas and back.

`read_document(path)` returns an SGD `Schema` and the parts of the document that it
cannot represent. `document_of(schema, format)` returns a document.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "convert": [
            "Imported",
            "Loss",
            "document_of",
            "read_document",
            "read_tools",
            "tools_of",
        ],
    },
)
