"""The contract of a data set: its download, its conversion to a data folder, its tasks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxaug.core.files import shown

Convert = Callable[[Path, Path, bool], object]
"""(published folder, data folder to write, mentioned_only) -> report.

`mentioned_only` asks for frames of the services of a dialogue alone. The report is
printed. Raises `UserError` if the folder is not as published.
"""


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set that `jaxaug data fetch` and `jaxaug data convert` know by name.

    Packages register one as an entry point in the group `jaxaug.datasets`.

    Attributes:
        url: address of a .tar.gz, .tgz or .zip.
        archive: name of the archive's file on this machine.
        keep: pattern of the members to unpack; its first group is where to.
        layout: what the folder holds afterwards, for those who fill it by hand.
        note: further facts for the user.
        sha256: of the archive, or None if only `trees` are known.
        trees: folder in the archive -> its git tree id.
        top_folder: whether everything lies in one folder of the archive, which then is
            not part of a member's name.
        convert: turns the published files into a data folder in the layout of SGD,
            which every task of `jaxaug.feed.recipes` reads; None if there is nothing to
            convert.
        tasks: registers further SeqIO tasks when `tasks` is imported, or None.
    """

    url: str
    archive: str
    keep: str
    layout: str
    note: str
    sha256: str | None = None
    trees: Mapping[str, str] = field(default_factory=dict)
    top_folder: bool = True
    convert: Convert | None = None
    tasks: Callable[[], None] | None = None


def registered(name: str, found: Any) -> DataSet:
    """Returns the object of an entry point; raises `TypeError` if it is no data set."""
    del name
    if not isinstance(found, DataSet):
        raise TypeError(f"is {shown(found)}, expected a jaxaug.data.datasets.DataSet")
    return found
