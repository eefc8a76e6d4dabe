"""The tasks and mixtures of jaxaug; importing this package makes them known.

Their names and contents are listed in `jaxaug.feed.recipes`, `tasks.adapters`,
`tasks.paraphrase`, and `tasks.personachat`. Data sets of other packages add theirs
(`tasks.others`). Registration reads only folder names; a cache is built when a split is
first used. The data folder comes from `$JAXAUG_DATA_DIR` at the time of import.

Training and the evaluation of dialogues need no SeqIO. The T5X programs register views
of all tasks with SeqIO when they first use its registries (`tasks.views`). For other
programs, import SeqIO before this package, or call `register`.
"""

import importlib
import sys

import lazy_loader
from t5x.feed import registered

from jaxaug.feed import sets
from tasks import dialogues

_SUBMODULES = """
    adapters curriculum dialogues evaluation others paraphrase personachat
    report_logger token_feed views vocabulary
"""
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, _SUBMODULES.split())


def register() -> None:
    """Registers views of all tasks and mixtures with SeqIO."""
    importlib.import_module(f"{__name__}.views").register()


def _provide(module: str) -> None:
    sets.provide(lambda: importlib.import_module(f"{__name__}.{module}").register())


dialogues.register()  # Reports a wrong data folder now.
for _module in ("paraphrase", "personachat", "adapters", "others"):
    _provide(_module)
registered.when_used(register)
if "seqio" in sys.modules:
    register()
