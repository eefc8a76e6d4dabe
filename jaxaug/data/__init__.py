"""Reads files into typed records and checks them on the way.

`read_schema` and `read_dialogues` read a folder in the layout of the SGD repository.
They can rename dialogues to a variant on the fly. `personachat` reads Persona-Chat,
`minisgd` unpacks the embedded data set, and `fetch` downloads others.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "folders": ["resolve_data_dir", "variant_folders"],
        "schema": ["Intent", "Schema", "Service", "Slot", "read_schema"],
        "dialogue": ["Dialogue", "Frame", "State", "Turn"],
        "sgd": ["read_dialogues"],
        "variants": ["write_variant"],
    },
)
