# The types of the names that `__init__.py` imports when they are first used.
from jaxaug.api import augment_schema as augment_schema
from jaxaug.api import evaluate as evaluate
from jaxaug.api import load_dialogues as load_dialogues
from jaxaug.augment.plain.people import paraphrase as paraphrase
from jaxaug.track.tracker import Tracker as Tracker

__all__ = ["Tracker", "augment_schema", "evaluate", "load_dialogues", "paraphrase"]
__version__: str
