"""Figures of reports and plots: matplotlib is optional, and files are atomic."""

import importlib.util
import io
from typing import Any

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, reach, write_bytes
from jaxaug.core.installed import missing_extra

_FORMS = ("png", "svg", "pdf", "jpg", "jpeg", "webp", "tif", "tiff", "eps", "ps")


def check_picture(path: PathLike) -> None:
    """Checks, before the work, that a figure can be written to a path.

    Raises:
        UserError: the suffix of `path` is not a picture format, or its storage is
            unreachable.
    """
    suffix = reach(path, "Name a file in another place.").suffix
    if suffix[1:].lower() not in _FORMS:
        raise UserError(
            f"cannot draw {path}: {suffix!r} is no ending of a picture. End the name "
            f"in one of .{', .'.join(_FORMS)}."
        )


def can_draw() -> bool:
    """Returns whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def new_figure(path: PathLike, width: float, height: float) -> Any:
    """Returns a figure with this size in inches; `UserError` without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra(
            f"cannot draw {path}: matplotlib is not installed", "matplotlib"
        ) from None
    return Figure(figsize=(width, height), layout="constrained")


def label(name: str) -> str:
    """Returns a legend label; matplotlib hides labels that start with an underscore."""
    return f" {name}" if name.startswith("_") else name


def picture(figure: Any, form: str) -> bytes:
    """Returns a figure as the bytes of a file; equal figures give equal bytes.

    All texts are drawn literally: a `$` in the name of a run starts no formula.
    """
    import matplotlib
    from matplotlib.text import Text

    buffer = io.BytesIO()
    # The file has no date and no random ids.
    metadata = {"Date": None} if form == "svg" else None
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    settings: Any = {"svg.hashsalt": "jaxaug", "svg.fonttype": "none"}
    # Texts that are created while drawing, such as axis numbers, follow the settings.
    settings["text.parse_math"] = False
    with matplotlib.rc_context(settings):
        figure.savefig(buffer, format=form, dpi=120, metadata=metadata)
    return buffer.getvalue()


def write_figure(path: PathLike, figure: Any) -> None:
    """Writes a figure under a temporary name, then renames it; see `check_picture`.

    Raises:
        UserError: as for `check_picture`.
    """
    check_picture(path)
    target = epath.Path(path)
    write_bytes(target, picture(figure, target.suffix[1:].lower()))
