"""Incomplete, damaged, and refused checkpoints, here those without digests."""

import asyncio
import errno
import gc
import os
import textwrap

import pytest
from checkpoint_kit import (
    Iterator,
    assert_same_state,
    folders,
    make_manager,
    make_state,
    save_steps,
)
from process_kit import run_together
from t5x import checkpoints
from t5x.checkpoint import folders as folders_lib
from t5x.checkpoint import sources
from t5x.errors import UserError

DIGESTS = "checkpoint_1/digests.json"


def test_half_written_folders_are_never_used(tmp_path):
    save_steps(make_manager(tmp_path), 1)
    for name in (
        "checkpoint_6.orbax-checkpoint-tmp",
        "checkpoint_7",
        "checkpoint_8/state",
        "checkpoint_x",
    ):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "checkpoint_8" / "state" / "manifest.ocdbt").touch()
    manager = make_manager(tmp_path, keep=2)
    assert manager.latest_step() == 1
    assert_same_state(manager.restore(), make_state(1, seed=1))
    with pytest.raises(UserError, match="checkpoint_7 holds neither"):
        manager.restore(path=str(tmp_path / "checkpoint_7"))
    save_steps(manager, 7)
    assert checkpoints.all_steps(tmp_path) == [1, 7]
    left = set(folders(tmp_path))
    assert {"checkpoint_7.incomplete", "checkpoint_8.incomplete"} <= left
    assert "checkpoint_6.orbax-checkpoint-tmp" not in left
    assert_same_state(manager.restore(), make_state(7, seed=7))


def test_unknown_errors_are_named(tmp_path, monkeypatch):
    """It may not be damage, so the message does not advise to delete anything."""
    save_steps(make_manager(tmp_path), 1)

    def fail(*args, **kwargs):
        raise AttributeError("no attribute 'tree'")

    monkeypatch.setattr(sources.ocp.Checkpointer, "restore", fail)
    with pytest.raises(UserError) as error:
        checkpoints.load_t5x_checkpoint(tmp_path)
    assert f"{tmp_path}/checkpoint_1" in str(error.value)
    assert "(AttributeError: no attribute 'tree'). Copy it" in str(error.value)
    assert "delete" not in str(error.value)


# If a read fails, orbax leaves a reader on a closed event loop.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("damage", ["metadata", "manifest", "data", "truncate"])
def test_damaged_orbax_checkpoint(tmp_path, damage):
    save_steps(make_manager(tmp_path), 1)
    (tmp_path / DIGESTS).unlink()
    state = tmp_path / "checkpoint_1" / "state"
    if damage == "metadata":
        (state / "_METADATA").write_text("{")
    elif damage == "manifest":
        (state / "manifest.ocdbt").unlink()
    else:
        for path in state.rglob("d/*"):
            if damage == "data":
                path.unlink()
            else:
                path.write_bytes(path.read_bytes()[:20])
    manager = make_manager(tmp_path)
    with pytest.raises(UserError, match=f"{tmp_path}/checkpoint_1 is damaged"):
        manager.restore(path=str(tmp_path / "checkpoint_1"))


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_loses_nothing(tmp_path):
    good = make_manager(tmp_path)
    save_steps(good, 1)
    manager = make_manager(tmp_path, Iterator(FULL), keep=1)
    with pytest.raises(
        UserError,
        match=f"Cannot save a checkpoint in {tmp_path}: No space left on device. "
        "The checkpoint of step 1 is intact. Free space",
    ):
        save_steps(manager, 2)
    assert folders(tmp_path) == ["checkpoint_1"]
    assert_same_state(manager.restore(), make_state(1, seed=1))
    # Space was freed: the same object saves again.
    manager._dataset = good._dataset
    save_steps(manager, 3)
    assert checkpoints.all_steps(tmp_path) == [3]


def test_reason_is_found_behind_other_exceptions():
    reason = folders_lib.file_system_reason
    wrapped = ValueError("x")
    wrapped.__cause__ = ExceptionGroup("g", [FULL])
    assert reason(wrapped) == "No space left on device"
    tensorstore = ValueError("RESOURCE_EXHAUSTED: [OS error: No space left on device]")
    assert reason(tensorstore) == "No space left on device"
    assert reason(ValueError("something else")) is None


@pytest.mark.parametrize(
    ("error", "logged"), [(FULL, []), (ValueError("bad"), ["Task exception"])]
)
def test_pending_writes_without_a_waiter_are_silent(error, logged, caplog):
    folders_lib.quieten_orbax()

    async def write():
        raise error

    async def save():
        asyncio.create_task(write())
        await asyncio.sleep(0)

    asyncio.run(save())
    gc.collect()
    assert [r.getMessage()[: len("Task exception")] for r in caplog.records] == logged


FILE_LIMIT = """
    import resource, sys
    import jax, numpy as np
    from flax.linen import partitioning as fp
    from t5x import checkpoints, train_state
    from t5x.errors import UserError
    from t5x.partitioning import PjitPartitioner

    def state(step):
        w = jax.random.normal(jax.random.PRNGKey(step), (50_000,))
        params = {f"w{i}": w for i in range(8)}
        axes = {f"{name}_axes": fp.AxisMetadata(("embed",)) for name in params}
        s = train_state.InferenceState.create({"params": params, "params_axes": axes})
        return s.replace_step(np.int32(step))

    folder = sys.argv[1]
    manager = checkpoints.Checkpointer(
        state(0), PjitPartitioner(num_partitions=1), folder, keep=1)
    manager.save(state(1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    try:
        manager.save(state(2))
        print("saved")
    except UserError as e:
        print(e)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    print(checkpoints.all_steps(folder))
    manager.save(state(3))
    print(checkpoints.all_steps(folder))
"""


@pytest.mark.slow
def test_write_refused_by_the_system(python, tmp_path):
    """A limit on file sizes replaces a full disk; writes really fail."""
    command = ("-c", textwrap.dedent(FILE_LIMIT), tmp_path)
    ((out, err),) = run_together(python, command, devices=1)
    message, *steps = out.splitlines()
    assert message.startswith(f"Cannot save a checkpoint in {tmp_path}: File too large")
    assert "step 1 is intact" in message
    assert steps == ["[1]", "[3]"]
    assert folders(tmp_path) == ["checkpoint_3"]
    assert "Traceback" not in err
