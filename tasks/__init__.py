"""SeqIO tasks and mixtures; importing this package makes them known.

Their names and contents are listed in `jaxaug.feed.recipes`, `tasks.adapters`,
`tasks.paraphrase`, and `tasks.personachat`. Data sets of other packages add theirs
(`tasks.others`). The tasks are registered at once if SeqIO is imported, otherwise when
a program first uses SeqIO's registries; dialogue state tracking works without SeqIO
(`tasks.dialogues`). Registration reads only folder names; a record cache is built when
a split is first used. The data folder comes from `$JAXAUG_DATA_DIR` at the time of
import.
"""

import sys

import lazy_loader

from tasks import dialogues, late

_SUBMODULES = """
    adapters cached_task curriculum dst evaluation hf_vocabulary listing offline others
    paraphrase personachat preprocessors report_logger token_feed
"""
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, _SUBMODULES.split())


def register() -> None:
    """Registers all tasks and mixtures with SeqIO."""
    from tasks import adapters, dst, others, paraphrase, personachat

    for module in (adapters, dst, paraphrase, personachat, others):
        module.register()


if "seqio" in sys.modules:
    register()
else:
    dialogues.find("")  # Reports a wrong data folder now.
    late.fill_seqio(register)
