"""Progress of long work: a bar on a terminal, or periodic lines in a log."""

import sys
from collections.abc import Iterable, Sized
from typing import Any

from tqdm import tqdm

SECONDS = 30.0
"""Seconds between two lines of a log; shorter work gets no line."""
_LINE = (
    "{desc}: {n_fmt}/{total_fmt}, {elapsed} gone, {remaining} left, "
    "{rate_noinv_fmt}{postfix}"
)
_WITHOUT_TOTAL = "{desc}: {n_fmt}{unit}, {elapsed} gone, {rate_noinv_fmt}"


def progress(
    iterable: Iterable[Any] | None = None,
    *,
    desc: str,
    unit: str,
    last: bool = False,
    **options: Any,
) -> tqdm:
    """Iterates with a display on stderr; `last` adds a line to the end of a log."""
    if sys.stderr.isatty():
        return tqdm(iterable, desc=desc, unit=unit, **options)
    counted = isinstance(iterable, Sized) or options.get("total") is not None
    line = _LINE if counted else _WITHOUT_TOTAL
    log = {"mininterval": SECONDS, "delay": SECONDS, "bar_format": line}
    own = {**options, **log, "leave": False}
    return _Log(iterable, desc=desc, unit=unit, last=last, **own)


class _Log(tqdm):
    """Writes lines instead of a bar that overwrites itself."""

    def __init__(self, *arguments: Any, last: bool, **options: Any):
        self._last = last
        super().__init__(*arguments, **options)

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Writes a line; writes nothing when a bar would be cleared."""
        del pos
        if msg is None:
            self.fp.write(f"{self}\n")
            self.fp.flush()
        return False

    def close(self) -> None:
        """Writes the last line if requested."""
        if self._last and not self.disable:
            self.display()
        super().close()
