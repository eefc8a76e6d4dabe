"""Installed packages, and commands that install missing ones."""

import argparse
import contextlib
import platform
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jaxaug
from jaxaug.core.errors import UserError

# Two names of the same package.
_SAME = {"tensorflow": ("tensorflow-cpu",), "tensorflow-cpu": ("tensorflow",)}

_NEED = {
    "jax": "flax jax jaxlib ml_dtypes optax orbax safetensors "
    "sentencepiece t5x tokenizers",
    "seqio": "clu seqio tensorflow tensorflow_text",
    "endpoint": "httpx2",
    "engine": "ctranslate2",
    "hf": "gguf huggingface_hub jinja2 transformers",
    "inspect": "inspect_ai",
    "mcp": "mcp",
    "nlp": "en_core_web_sm nltk rouge_score sacrebleu sklearn spacy",
    "parquet": "pyarrow",
    "report": "matplotlib",
    "serve": "h11 starlette uvicorn",
}
EXTRAS = {name: extra for extra, names in _NEED.items() for name in names.split()}
"""Maps a module that the base install lacks to the extra that brings it."""

BY_CHOICE = {"cuda", "dev", "docs", "inspect", "tpu"}
"""Extras for some machines and people; `make install` installs all others."""


def version(distribution: str) -> str | None:
    """Returns the version of an installed distribution, or None."""
    # This import costs more than all others of argument parsing.
    from importlib import metadata

    for name in (distribution, *_SAME.get(distribution, ())):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def versions() -> str:
    """Returns a version line each for jaxaug, runtime, JAX, and Python."""
    others = {name: version(name) for name in ("jaxaug-t5x", "jax")}
    found = {"jaxaug": jaxaug.__version__, **others}
    found["Python"] = platform.python_version()
    return "\n".join(
        f"{name} {text or 'not installed'}" for name, text in found.items()
    )


class ShowVersions(argparse.Action):
    """Prints `versions()` for `--version`, and ends the program with status 0."""

    def __init__(self, **keywords: Any):
        super().__init__(nargs=0, default=argparse.SUPPRESS, **keywords)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Handles the option; called by argparse."""
        print(versions())
        parser.exit()


_ROOT = Path(__file__).resolve().parents[2]


def _is_checkout() -> bool:
    """Returns whether the package runs from a checkout instead of a wheel."""
    return (_ROOT / "Makefile").is_file()


def install_command(extra: str = "") -> str:
    """Returns the command that installs an extra into this environment.

    jaxaug is on no package index, so a checkout is installed from its folder. If jaxaug
    was installed from a wheel, pip finds it by name and installs the packages of the
    extra.
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


def missing_extra(problem: str, module: str) -> UserError:
    """Returns the error for work that needs packages of an extra.

    Args:
        problem: the failed work and the missing package, without a full stop.
        module: the missing module, one of `EXTRAS`.
    """
    extra = EXTRAS[module]
    place = " of jaxaug" if _is_checkout() else ""
    return UserError(
        f"{problem}. It comes with the extra {extra!r}: run "
        f"{install_advice(extra)}{place}."
    )


@contextlib.contextmanager
def extras_of(work: str) -> Iterator[None]:
    """Converts a failed import inside the context to an error that names the extra.

    Raises:
        UserError: a module of `EXTRAS` is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise  # The installation is damaged.
        raise missing_extra(
            f"{work} needs the package {module}, which is not installed", module
        ) from None


def missing_package(what: str, distribution: str) -> UserError:
    """Returns the error for a part that is in another package of this repository."""
    fix = (
        f"Run {install_advice()} of jaxaug."
        if _is_checkout()
        else "Install its wheel; the repository of jaxaug builds it (docs/install.md)."
    )
    return UserError(
        f"{what} comes with the package {distribution}, which is not installed. {fix}"
    )
