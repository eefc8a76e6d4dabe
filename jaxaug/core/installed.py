"""What is installed, and how to install the rest."""

import argparse
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

import jaxaug
from jaxaug.core.errors import UserError

# The same package under two names.
_SAME = {"tensorflow": ("tensorflow-cpu",), "tensorflow-cpu": ("tensorflow",)}

BY_CHOICE = {"cuda", "dev", "docs", "tpu"}
"""Extras for some machines and people; `make install` brings all others."""


def version(distribution: str) -> str | None:
    """Of an installed distribution; None where it is not there."""
    from importlib import metadata  # Costs more than all that parsing imports.

    for name in (distribution, *_SAME.get(distribution, ())):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def versions() -> str:
    """One line each: jaxaug, the runtime, JAX and Python; imports none of them."""
    others = {name: version(name) for name in ("jaxaug-t5x", "jax")}
    found = {"jaxaug": jaxaug.__version__, **others}
    found["Python"] = platform.python_version()
    return "\n".join(
        f"{name} {text or 'not installed'}" for name, text in found.items()
    )


class ShowVersions(argparse.Action):
    """`--version`: prints `versions()` and ends the program with status 0."""

    def __init__(self, **keywords: Any):
        super().__init__(nargs=0, default=argparse.SUPPRESS, **keywords)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """What argparse calls when it meets the option."""
        print(versions())
        parser.exit()


_ROOT = Path(__file__).resolve().parents[2]


def _is_checkout() -> bool:
    """Tells whether the package runs from a checkout; else it comes from a wheel."""
    return (_ROOT / "Makefile").is_file()


def install_command(extra: str = "") -> str:
    """Returns the command that installs an extra into this environment.

    jaxaug is on no index: a checkout has to be installed from its folder. Where jaxaug was
    installed from a wheel, pip finds it by name and gets what the extra lacks.
    """
    if not _is_checkout():
        name = f"jaxaug[{extra}]" if extra else "jaxaug"
        return f"pip install {shlex.quote(name)}"
    words = ["make", "install"]
    if extra in BY_CHOICE:
        words.append(f"EXTRA={extra}")
    inside = sys.prefix != sys.base_prefix
    if inside and Path(sys.prefix).resolve() != _ROOT / ".venv":
        words.append(f"VENV={sys.prefix}")
    return " ".join(words)


def install_advice(extra: str = "") -> str:
    """Returns `install_command` in backquotes, and the folder in which to run it."""
    place = " in the repository" if _is_checkout() else ""
    return f"`{install_command(extra)}`{place}"


def missing_extra(problem: str, extra: str) -> UserError:
    """The error for work that needs packages of an extra.

    Args:
      problem: what cannot be done and which package is missing, without a full stop.
      extra: of pyproject.toml.
    """
    place = " of jaxaug" if _is_checkout() else ""
    return UserError(
        f"{problem}. It comes with the extra {extra!r}: run {install_advice(extra)}{place}."
    )


def missing_package(what: str, distribution: str) -> UserError:
    """The error for a part that another package of this repository has.

    Args:
      what: the part, such as `jaxaug fewshot`.
      distribution: the name of the package.
    """
    fix = (
        f"Run {install_advice()} of jaxaug."
        if _is_checkout()
        else "Install its wheel; the repository of jaxaug builds it (docs/install.md)."
    )
    return UserError(
        f"{what} comes with the package {distribution}, which is not installed. {fix}"
    )
