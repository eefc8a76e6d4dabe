"""Runs programs in tests."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def ran(command: Sequence[str | Path], **options: Any) -> Any:
    """Returns the finished program, with its output and errors as texts.

    Args:
        command: program and arguments.
        **options: options of `subprocess.run`; `check` is False by default.
    """
    fixed = {"capture_output": True, "text": True, "check": False}
    return subprocess.run(command, **fixed | options)  # noqa: PLW1510


def python_says(script: str) -> str:
    """Returns the output of a script, which runs in a new interpreter."""
    return ran([sys.executable, "-c", script], check=True).stdout.strip()
