"""Settings of the machine: their values, their conditions, and how to turn them off."""

import os
import subprocess
import sys
import textwrap

import jax
import jaxlib
import pytest
from t5x.errors import UserError
from t5x.on_cpu import features
from t5x.start import machine

# Blocks of 64 MB, larger than glibc keeps by itself: faults of the second allocation.
_FAULTS = """
import ctypes, resource, sys
from t5x.start import machine
if sys.argv[1] == "keep":
    assert machine.keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
def touch():
    block = libc.malloc(1 << 26)
    ctypes.memset(block, 1, 1 << 26)
    libc.free(block)
touch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
touch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.fixture
def config(monkeypatch):
    """Restores the configuration of JAX after the test."""
    names = (
        "jax_compilation_cache_dir",
        "jax_enable_compilation_cache",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_compilation_cache_max_size",
    )
    before = {name: getattr(jax.config, name) for name in names}
    monkeypatch.setattr(machine, "_has_accelerator", lambda: False)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the allocator is that of glibc"
)
def test_freed_memory_is_kept(python):
    def faults(mode):
        environment = {k: v for k, v in os.environ.items() if "MALLOC" not in k}
        command = [python, "-c", textwrap.dedent(_FAULTS), mode]
        return int(subprocess.check_output(command, env=environment))

    # Pages have 4 KB, or 2 MB if the system uses large ones.
    assert faults("keep") < 10
    assert faults("leave") >= (1 << 26) // (1 << 21)


def test_an_allocator_that_the_user_set_stays(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    assert not machine.keep_freed_memory()


def test_flags_turn_everything_off(config, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1")
    line = machine.set_up(keep_memory=False, ynn_fusions=True, compilation_cache="none")
    assert line == "machine: nothing set"
    assert os.environ["XLA_FLAGS"] == "--xla_a=1"
    assert not jax.config.jax_enable_compilation_cache


@pytest.mark.parametrize("version", ["0.10.2", "0.12.0.1"])
def test_fusions_are_off_where_the_flag_is_known(version, config, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1")
    monkeypatch.setattr(jaxlib, "__version__", version)
    monkeypatch.setattr(features, "has_bfloat16", lambda: False)
    line = machine.set_up(keep_memory=False, compilation_cache="none")
    assert line == "machine: XLA without YNN fusions (--ynn_fusions)"
    expected = "--xla_a=1 --xla_cpu_experimental_ynn_fusion_type="
    assert os.environ["XLA_FLAGS"] == expected
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setattr(features, "has_bfloat16", lambda: True)
    line = machine.set_up(keep_memory=False, compilation_cache="none")
    but = "but for products of bfloat16"
    assert line == f"machine: XLA without YNN fusions {but} (--ynn_fusions)"
    monkeypatch.setenv("XLA_FLAGS", expected)
    # The setting is applied once; a choice of the user stays.
    machine.set_up(keep_memory=False, compilation_cache="none")
    assert os.environ["XLA_FLAGS"] == expected
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setattr(jaxlib, "__version__", "0.13.0")
    machine.set_up(keep_memory=False, compilation_cache="none")
    assert os.environ["XLA_FLAGS"] == ""


def test_an_accelerator_is_left_alone(config, monkeypatch):
    monkeypatch.setattr(machine, "_has_accelerator", lambda: True)
    monkeypatch.setattr(machine, "keep_freed_memory", lambda: 1 / 0)
    monkeypatch.setenv("XLA_FLAGS", "")
    assert machine.set_up(compilation_cache="none") == "machine: nothing set"
    assert os.environ["XLA_FLAGS"] == ""


def test_compiled_programs_go_to_the_users_cache(config, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", None)
    folder = machine.use_compilation_cache(None)
    assert folder.startswith(f"{tmp_path}/t5x/compiled/")
    assert jax.config.jax_compilation_cache_dir == folder
    assert jax.config.jax_compilation_cache_max_size == 4 << 30
    assert os.listdir(folder) == []
    # A setting of JAX overrides the default, and the flag overrides both.
    jax.config.update("jax_compilation_cache_dir", "/somewhere")
    assert machine.use_compilation_cache(None) == "/somewhere"
    named = machine.use_compilation_cache(str(tmp_path / "named"))
    assert named == str(tmp_path / "named") == jax.config.jax_compilation_cache_dir


def test_a_cache_that_cannot_be_made(config, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--compilation_cache=.*file/x: Not a dir"):
        machine.use_compilation_cache(str(tmp_path / "file" / "x"))
    # An unusable home folder is not an error.
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert machine.use_compilation_cache(None) is None


def test_a_relative_folder_of_caches_counts_as_none(config, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    jax.config.update("jax_compilation_cache_dir", None)
    folder = machine.use_compilation_cache(None)
    assert folder.startswith(f"{tmp_path}/.cache/t5x/compiled/")
