"""Stand-ins for the tools that the scripts of launch/ call."""

import sys

import pytest

SHOW = """
import json, os, sys
names = ("JAX_PLATFORMS", "XLA_FLAGS", "TF_CPP_MIN_LOG_LEVEL", "JAXAUG_DATA_DIR")
names += ("T5X_STOPPED_STATUS",)
given = {n: os.environ[n] for n in names if n in os.environ}
print(json.dumps([sys.argv[1:], given]), flush=True)
"""


@pytest.fixture
def tools(tmp_path):
    """Returns `tools(name, script)`, which puts a stand-in into `tools.folder`."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def add(name, script):
        (folder / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
        (folder / name).chmod(0o755)

    add.folder = folder
    # Stands for the interpreter.
    (tmp_path / "show.py").write_text(SHOW)
    add("python-shows", f'exec {sys.executable} {tmp_path}/show.py "$@"')
    return add
