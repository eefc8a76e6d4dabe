"""The legacy layout, read and written by independent code."""

import gzip
import itertools
import json

import jax
import msgpack
import numpy as np
import pytest
import tensorstore as ts
from checkpoint_kit import assert_same_state, folders, make_manager, make_state
from flax import serialization
from hypothesis import given
from hypothesis import strategies as st
from jax import numpy as jnp
from t5x import checkpoints
from t5x.checkpoint import legacy_writer, sources
from t5x.errors import UserError

KERNEL_FOLDER = "target.layer.kernel"


def read_legacy_independently(folder):
    """Reads a legacy checkpoint with msgpack, gzip, and numpy only."""

    def ext(code, data):
        # flax packs arrays as extension 1: (shape, dtype name, bytes)
        assert code in (1, 3)
        shape, dtype, raw = msgpack.unpackb(data)
        value = np.frombuffer(raw, np.dtype(dtype)).reshape(shape)
        return value if code == 1 else value[()]

    contents = msgpack.unpackb((folder / "checkpoint").read_bytes(), ext_hook=ext)

    def leaf(spec):
        zarr = folder / spec["kvstore"]["path"]
        meta = json.loads((zarr / ".zarray").read_text())
        assert meta["compressor"] == {"id": "gzip", "level": 1}
        assert meta["zarr_format"] == 2
        out = np.empty(meta["shape"], meta["dtype"])
        chunks = meta["chunks"]
        grid = [range(n // c) for n, c in zip(meta["shape"], chunks, strict=True)]
        for index in itertools.product(*grid):
            raw = gzip.decompress((zarr / ".".join(map(str, index))).read_bytes())
            where = tuple(
                slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True)
            )
            out[where] = np.frombuffer(raw, meta["dtype"]).reshape(chunks)
        return out

    def walk(node):
        if isinstance(node, dict) and "kvstore" in node:
            return leaf(node)
        if isinstance(node, dict):
            return {k: walk(v) for k, v in node.items()}
        return node

    return contents["version"], walk(contents["optimizer"])


def test_legacy_files_follow_the_specification(tmp_path, monkeypatch):
    monkeypatch.setattr(legacy_writer, "_MAX_CHUNK_BYTES", 32)
    state = make_state(step=6)
    make_manager("legacy", tmp_path).save(state)
    folder = tmp_path / "checkpoint_6"
    # Arrays with axes are folders; v_row, v_col, placeholders, and step are inline.
    assert "checkpoint" in folders(folder)
    assert KERNEL_FOLDER in folders(folder)
    assert not [n for n in folders(folder) if n.endswith(("v_row", "v_col", ".m"))]
    version, tree = read_legacy_independently(folder)
    assert version == 3
    jax.tree.map(np.testing.assert_array_equal, tree, state.state_dict())
    raw = serialization.msgpack_restore((folder / "checkpoint").read_bytes())
    assert raw["optimizer"]["target"]["layer"]["kernel"] == {
        "driver": "zarr",
        "dtype": "float32",
        "kvstore": {"driver": "file", "path": f"{KERNEL_FOLDER}/"},
        "metadata": {
            "chunks": [2, 4],
            "compressor": {"id": "gzip", "level": 1},
            "shape": [4, 8],
        },
    }


def write_legacy_by_hand(folder, kvstore, top_level_path=False, version=3, **meta):
    """Writes a checkpoint as another program could; returns the kernel."""
    folder.mkdir(parents=True)
    state = make_state(step=8, seed=4).state_dict()
    kernel = np.asarray(state["target"]["layer"]["kernel"])
    metadata = {
        "chunks": [2, 4],
        "compressor": {"id": "gzip", "level": 1},
        "shape": [4, 8],
    }
    store = ts.open(
        {
            "driver": "zarr",
            "dtype": meta.get("dtype", "float32"),
            "kvstore": {"driver": "file", "path": str(folder / KERNEL_FOLDER)},
            "metadata": metadata,
        },
        create=True,
    ).result()
    store.write(kernel.view(np.uint16)[..., 1::2] if meta else kernel).result()
    spec = {
        "driver": "zarr",
        "dtype": meta.get("dtype", "float32"),
        "kvstore": dict(kvstore),
        "metadata": metadata,
    }
    if top_level_path:
        spec["path"] = KERNEL_FOLDER
    else:
        spec["kvstore"]["path"] = f"{KERNEL_FOLDER}/"
    state = jax.tree.map(np.asarray, state)
    state["target"]["layer"]["kernel"] = spec
    (folder / "checkpoint").write_bytes(
        serialization.msgpack_serialize({"version": version, "optimizer": state})
    )
    return kernel


@pytest.mark.parametrize(
    ("kvstore", "top_level_path"),
    [
        ({"driver": "file"}, False),
        ({"driver": "gfile"}, False),
        ({"driver": "gcs", "bucket": "t5x-dummy-bucket"}, False),
        ({"driver": "gcs", "bucket": "t5x-dummy-bucket"}, True),
    ],
)
def test_foreign_specs_are_read_where_the_folder_is_now(
    tmp_path, kvstore, top_level_path
):
    folder = tmp_path / "checkpoint_8"
    kernel = write_legacy_by_hand(folder, kvstore, top_level_path)
    for reader in ("orbax", "legacy"):
        restored = make_manager(reader, tmp_path).restore()
        np.testing.assert_array_equal(restored.params["layer"]["kernel"], kernel)
        assert_same_state(restored, make_state(step=8, seed=4))


def test_gs_folders_become_gcs_specs():
    spec = sources._read_spec(
        {"driver": "zarr", "kvstore": {"driver": "file", "path": "target.w/"}},
        "gs://bucket/runs/a/checkpoint_5",
    )
    assert spec["kvstore"] == {
        "driver": "gcs",
        "bucket": "bucket",
        "path": "runs/a/checkpoint_5/target.w/",
    }


@pytest.mark.parametrize("version", [0, 1])
def test_old_versions_are_refused(tmp_path, version):
    write_legacy_by_hand(tmp_path / "checkpoint_8", {"driver": "file"}, version=version)
    with pytest.raises(
        UserError, match=f"earlier than 2 are not supported. Got version: {version}"
    ):
        make_manager("legacy", tmp_path).restore()


def test_version_2_bfloat16_stored_as_uint16(tmp_path):
    folder = tmp_path / "checkpoint_8"
    kernel = write_legacy_by_hand(folder, {"driver": "file"}, version=2, dtype="uint16")
    loaded = checkpoints.load_t5x_checkpoint(str(folder))["target"]["layer"]["kernel"]
    assert loaded.dtype == jnp.bfloat16
    # The upper halves of the float32 values are their truncation to bfloat16.
    expected = (kernel.view(np.uint32) & 0xFFFF0000).view(np.float32)
    np.testing.assert_array_equal(loaded.astype(np.float32), expected)
    write_legacy_by_hand(tmp_path / "new", {"driver": "file"}, dtype="uint16")
    with pytest.raises(UserError, match="uint16.*save it as bfloat16"):
        checkpoints.load_t5x_checkpoint(str(tmp_path / "new"))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=4), st.integers(1, 5000))
def test_chunks_divide_the_shape_and_are_small_enough(shape, limit):
    chunk = legacy_writer.choose_chunk_shape(shape, limit)
    assert all(n % c == 0 for n, c in zip(shape, chunk, strict=True))
    assert np.prod(chunk) <= limit
