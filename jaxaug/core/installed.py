"""What is installed."""

import argparse
import platform
from typing import Any

import jaxaug


def version(distribution: str) -> str | None:
    """Of an installed distribution; None where it is not there."""
    from importlib import metadata  # Costs more than all that parsing imports.

    # tensorflow-cpu and tensorflow are the same package under two names.
    for name in (distribution, distribution.removesuffix("-cpu")):
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
