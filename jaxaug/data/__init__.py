"""Files on disk -> typed records that are checked as they are read.

`read_schema` and `read_dialogues` read a folder in the layout of the SGD repository,
dialogues renamed to a variant on the fly; `personachat` reads other data, `minisgd` unpacks
the embedded world, `fetch` downloads.
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
