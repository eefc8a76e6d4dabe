"""Records to text and back, one format a file: format and parse side by side.

`D3STFormatter(schema, options).dialogue(dialogue)` gives examples (inputs, targets,
where they come from); `parse` of the same module turns a model's answer back into a
state and counts what it could not use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "records": ["Example", "Formatter", "Parsed"],
        "d3st": ["D3STFormatter", "D3STOptions"],
        "json_tools": ["JSONFormatter", "JSONOptions"],
        "sdt": ["SDTFormatter", "SDTOptions"],
        "sdt_ind": ["SDTIndFormatter", "SDTIndOptions"],
        "t5dst": ["T5DSTFormatter", "T5DSTOptions"],
        "persona": ["PersonaOptions"],
    },
)
