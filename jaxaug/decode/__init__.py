"""Jitted decoding under the T5X contract: fixed shapes, decodes best last.

`sample` draws with `warpers` on the probabilities; `beam` has one loop with a pluggable
choice of candidates, which `diverse`, `dips`, `dpp` and `ssr` plug in.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["beam", "dips", "diverse", "dpp", "sample", "ssr", "warpers"],
    submod_attrs={"beam": ["Candidates", "Select"]},
)
