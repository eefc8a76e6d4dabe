"""Tasks of the data sets that other packages register (`jaxaug.datasets`)."""

from absl import logging

from jaxaug.core.errors import UserError
from jaxaug.data.fetch import DATA_SETS


def register() -> None:
    """Adds the tasks of each data set; skips broken packages with a warning."""
    for name in DATA_SETS.outside():
        try:
            add = DATA_SETS[name].tasks
        except UserError as error:
            logging.warning("its tasks are left out: %s", error)
            continue
        if add is not None:
            add()
