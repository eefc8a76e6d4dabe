"""The definition of a data set: its download, its conversion, and its tasks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxaug.core.files import shown

Convert = Callable[[Path, Path, bool], object]
"""(published folder, data folder to write, mentioned_only) -> report to print.

With `mentioned_only`, frames are written only for the services of a dialogue. Raises
`UserError` if the folder differs from the published one.
"""


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set for `jaxaug data fetch` and `jaxaug data convert`.

    Packages register data sets as entry points in the group `jaxaug.datasets`.

    Attributes:
        url: address of a .tar.gz, .tgz, or .zip; `hf:OWNER/NAME` on the Hugging Face
            hub; or a local folder. Empty if `jaxaug data fetch` cannot get the data
            set, and `layout` says how to get it.
        archive: name of the downloaded archive, if any.
        keep: pattern of the files to keep; its first group is the target path.
        layout: layout of the unpacked folder, for users who fill it by hand.
        note: further information that is printed for the user.
        sha256: checksum of the archive, or None if only `trees` are known.
        trees: folder in the archive -> git tree id.
        top_folder: whether to drop the outermost folder of the archive from the names.
        convert: converts the published files to a data folder in the layout of SGD,
            which every task of `jaxaug.feed.recipes` reads; None if no conversion is
            needed.
        tasks: registers further SeqIO tasks when `tasks` is imported, or None.
    """

    url: str
    archive: str = ""
    keep: str = "(.*)"
    layout: str = ""
    note: str = "Use it with --data_dir."
    sha256: str | None = None
    trees: Mapping[str, str] = field(default_factory=dict)
    top_folder: bool = True
    convert: Convert | None = None
    tasks: Callable[[], None] | None = None


def registered(name: str, found: Any) -> DataSet:
    """Returns the object of an entry point; raises `TypeError` for other types."""
    del name
    if not isinstance(found, DataSet):
        raise TypeError(f"is {shown(found)}, expected a jaxaug.data.datasets.DataSet")
    return found
