"""Conversion of records to text and back, with one format per module.

`D3STFormatter(schema, options).dialogue(dialogue)` yields examples (inputs, targets,
and their origin). `parse` of the same module turns a model's answer back into a state
and counts unusable pieces.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "records": ["Example", "Formatter", "Parsed"],
        "d3st": ["D3STFormatter", "D3STOptions"],
        "json_tools": ["JSONFormatter", "JSONOptions"],
        "sdt": ["SDTFormatter", "SDTIndFormatter", "SDTIndOptions", "SDTOptions"],
        "t5dst": ["T5DSTFormatter", "T5DSTOptions"],
        "persona": ["PersonaOptions"],
    },
)
