"""Redirects internal notes of TensorFlow and SeqIO to a file in the cache folder."""

import contextlib
from pathlib import Path

from jaxaug_base import libraries

from jaxaug.core import cache_folder

NAME = libraries.NAME


def log_file() -> Path:
    """Returns the log file in the cache folder, or in the local one."""
    return Path(cache_folder.local_cache_dir(), NAME)


def noted() -> contextlib.AbstractContextManager[None]:
    """Appends notes and warnings of the libraries to `log_file` inside the context.

    This includes everything that C++ code writes to standard error. Python output still
    goes to the screen, and so do errors of the libraries and the traceback of a crash.
    """
    return libraries.noted(log_file())
