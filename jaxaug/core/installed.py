"""What is installed, and how to install the rest."""

import argparse
import platform
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


def install_command(extra: str = "") -> str:
    """What to run in the repository to have that extra in this environment.

    jaxaug is on no index, so pip cannot find it by its name.
    """
    words = ["make", "install"]
    if extra in BY_CHOICE:
        words.append(f"EXTRA={extra}")
    root = Path(__file__).resolve().parents[2]
    inside = sys.prefix != sys.base_prefix
    if inside and Path(sys.prefix).resolve() != root / ".venv":
        words.append(f"VENV={sys.prefix}")
    return " ".join(words)


def missing_extra(problem: str, extra: str) -> UserError:
    """The error for work that needs packages of an extra.

    Args:
      problem: what cannot be done and which package is missing, without a full stop.
      extra: of pyproject.toml.
    """
    return UserError(
        f"{problem}. It comes with the extra {extra!r}: run `{install_command(extra)}` "
        "in the repository of jaxaug."
    )
