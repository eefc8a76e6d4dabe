"""Compiled programs stay in the cache folder."""

import os
import sys

from tests.support.programs import ran

PROGRAM = """
{}from jaxaug.core import compiled
compiled.keep_programs()
import jax
jax.jit(lambda x: x @ x.T)(jax.numpy.ones((3, 3))).block_until_ready()
print(jax.config.values["jax_compilation_cache_dir"])
"""


def run(before="", **variables):
    given = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    given |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", **variables}
    done = ran([sys.executable, "-c", PROGRAM.format(before)], env=given, check=True)
    return done.stdout.strip()


def test_programs_are_kept_in_the_default_folder(tmp_path):
    mine = tmp_path / "mine"
    folder = run("import jax\n", JAXAUG_CACHE_DIR=str(mine))
    (kind,) = (mine / "compiled").iterdir()
    assert folder == str(kind) and [*kind.glob("jit_*")]
    theirs = tmp_path / "theirs"
    assert run(
        JAXAUG_CACHE_DIR=str(tmp_path / "none"), JAX_COMPILATION_CACHE_DIR=str(theirs)
    ) == str(theirs)
    assert [*theirs.glob("jit_*")] and not (tmp_path / "none").exists()
    assert run(JAXAUG_CACHE_DIR=str(mine)) == folder
    (tmp_path / "file").write_text("")
    assert run(JAXAUG_CACHE_DIR=str(tmp_path / "file")) == "None"
