"""The verb `jaxaug data cache`: calls `tasks.offline`, which has SeqIO.

The tasks read their data folder and vocabulary from environment variables at import
time. The command-line values are therefore set as variables first.
"""

import argparse
import importlib
import os

from jaxaug.core import bundled, libraries
from jaxaug.core.errors import UserError
from jaxaug.data import folders
from jaxaug.feed import vocabulary


def run(arguments: argparse.Namespace) -> int:
    """Runs `jaxaug data cache`.

    Raises:
        UserError: neither a task nor a mixture is named.
    """
    if not arguments.task and not arguments.mixture:
        raise UserError(
            "nothing to cache: name tasks (--task) or mixtures (--mixture)."
        )
    if arguments.data_dir is not None:
        found = folders.resolve_data_dir(arguments.data_dir)
        os.environ[folders.DATA_DIR_VARIABLE] = str(found)
    if arguments.vocabulary is not None:
        os.environ[vocabulary.VOCABULARY_VARIABLE] = arguments.vocabulary
    if arguments.module is None:
        arguments.module = [bundled.tasks_module()]
    with libraries.noted():
        offline = importlib.import_module(bundled.tasks_module("tasks.offline"))
        return offline.run(arguments)
