"""Figures of reports and plots: matplotlib is optional, files appear whole or not at all."""

import io
from typing import Any

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, reach, write_bytes
from jaxaug.core.installed import missing_extra

_FORMS = ("png", "svg", "pdf", "jpg", "jpeg", "webp", "tif", "tiff", "eps", "ps")


def check_picture(path: PathLike) -> None:
    """Whether a figure can be written there, before work is done for it.

    Raises:
      UserError: the suffix of `path` is that of no picture, or its storage is out of
        reach.
    """
    suffix = reach(path, "Name a file in another place.").suffix
    if suffix[1:].lower() not in _FORMS:
        raise UserError(
            f"cannot draw {path}: {suffix!r} is no ending of a picture. End the name "
            f"in one of .{', .'.join(_FORMS)}."
        )


def new_figure(path: PathLike, width: float, height: float) -> Any:
    """An empty figure of that size in inches.

    Raises:
      UserError: matplotlib is not installed; the message names `path`.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra(
            f"cannot draw {path}: matplotlib is not installed", "report"
        ) from None
    return Figure(figsize=(width, height), layout="constrained")


def label(name: str) -> str:
    """A name for a legend, which leaves out labels that begin with an underscore."""
    return f" {name}" if name.startswith("_") else name


def picture(figure: Any, form: str) -> bytes:
    """A figure as a file of that form; equal figures give equal bytes.

    All texts are drawn as they are: a `$` in the name of a run begins no formula.
    """
    import matplotlib
    from matplotlib.text import Text

    buffer = io.BytesIO()
    # No date and no random ids.
    metadata = {"Date": None} if form == "svg" else None
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    settings: Any = {"svg.hashsalt": "jaxaug", "svg.fonttype": "none"}
    # Texts that are made while drawing, such as numbers at an axis, follow the settings.
    settings["text.parse_math"] = False
    with matplotlib.rc_context(settings):
        figure.savefig(buffer, format=form, dpi=120, metadata=metadata)
    return buffer.getvalue()


def write_figure(path: PathLike, figure: Any) -> None:
    """Writes a figure under a temporary name, then renames it into place.

    Raises:
      UserError: as for `check_picture`.
    """
    check_picture(path)
    target = epath.Path(path)
    write_bytes(target, picture(figure, target.suffix[1:].lower()))
