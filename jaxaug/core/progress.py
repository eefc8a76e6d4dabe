"""How far long work has come: a bar on a terminal, now and then a line in a log."""

import sys
from collections.abc import Iterable, Sized
from typing import Any

from tqdm import tqdm

SECONDS = 30.0
"""Between two lines of a log; work that is done before gets none."""
_LINE = "{desc}: {n_fmt}/{total_fmt}, {elapsed} gone, {remaining} left, {rate_noinv_fmt}{postfix}"
_WITHOUT_TOTAL = "{desc}: {n_fmt}{unit}, {elapsed} gone, {rate_noinv_fmt}"


def progress(
    iterable: Iterable[Any] | None = None,
    *,
    desc: str,
    unit: str,
    last: bool = False,
    **options: Any,
) -> tqdm:
    """Goes through an iterable, or counts what `update` tells, and shows it on stderr.

    Args:
      iterable: None where `update` is called.
      desc: what is being done.
      unit: of what is counted.
      last: whether a log gets a line at the end in any case.
      **options: of tqdm, such as `total`.
    """
    if sys.stderr.isatty():
        return tqdm(iterable, desc=desc, unit=unit, **options)
    counted = isinstance(iterable, Sized) or options.get("total") is not None
    line = _LINE if counted else _WITHOUT_TOTAL
    log = {"mininterval": SECONDS, "delay": SECONDS, "bar_format": line}
    own = {**options, **log, "leave": False}
    return _Log(iterable, desc=desc, unit=unit, last=last, **own)


class _Log(tqdm):
    """Writes lines, where a bar writes over itself."""

    def __init__(self, *arguments: Any, last: bool, **options: Any):
        self._last = last
        super().__init__(*arguments, **options)

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Writes a line; nothing where a bar would be wiped away."""
        del pos
        if msg is None:
            self.fp.write(f"{self}\n")
            self.fp.flush()
        return False

    def close(self) -> None:
        """Writes the last line, if there is to be one."""
        if self._last and not self.disable:
            self.display()
        super().close()
