"""Offline caches: their content, and streams from them, which are the same."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("seqio")

import numpy as np
import seqio
import tensorflow as tf
from t5x import utils

import tasks.vocabulary
from jaxaug.core.errors import UserError
from jaxaug_papers import minisgd
from tasks import cached_task, dst, offline, paraphrase, personachat, token_feed

LENGTHS = {"inputs": 60, "targets": 24}


@pytest.fixture(scope="module", autouse=True)
def out(tmp_path_factory, small_minisgd):
    """Returns the folder of caches of a small MiniSGD, which SeqIO knows."""
    root = tmp_path_factory.mktemp("offline")
    sizes = {"train_dialogues": 24, "dev_dialogues": 4, "test_dialogues": 2}
    with small_minisgd(root, **sizes) as patch:
        patch.setattr(seqio.utils, "_GLOBAL_CACHE_DIRECTORIES", [])
        dst.register()
        paraphrase.register()
        seqio.add_global_cache_dirs([str(root / "out")])
        yield root / "out"


def cached(name, out):
    for task in seqio.get_subtasks(seqio.get_mixture_or_task(name)):
        offline.cache_task(task, out)
    return seqio.get_mixture_or_task(name)


def stream(provider, split, **options):
    found = provider.get_dataset(LENGTHS, split, **options)
    return [
        {name: np.asarray(value).tolist() for name, value in example.items()}
        for example in found.as_numpy_iterator()
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": False},
        {"seed": 5, "num_epochs": 2},
        {"seed": 5, "shard_info": seqio.ShardInfo(1, 3)},
    ],
    ids=["in order", "two epochs", "one of three hosts"],
)
def test_a_stream_from_the_cache_is_the_stream_without_it(out, options):
    task = cached("d3st_aug_v1", out)
    plain = stream(task, "train", **options)
    assert len(plain) > 10
    assert stream(task, "train", use_cached=True, **options) == plain


def test_so_is_that_of_a_mixture(out):
    mixture = cached("d3st_aug_2x", out)
    options = {"seed": 3, "num_epochs": 1}
    plain = stream(mixture, "train", **options)
    assert stream(mixture, "train", use_cached=True, **options) == plain


def test_so_are_the_batches_of_the_token_feed(out):
    cached("d3st_aug_2x", out)
    batches = []
    for use_cached in (False, True):
        cfg = utils.DatasetConfig(
            "d3st_aug_2x",
            LENGTHS,
            "train",
            4,
            True,
            3,
            use_cached=use_cached,
            pack=True,
        )
        converter = seqio.EncDecFeatureConverter
        found = token_feed.get_dataset(cfg, 0, 1, converter, otherwise=None)
        batches.append([next(found) for _ in range(80)])
    for plain, offline_ones in zip(*batches, strict=True):
        for name, rows in plain.items():
            np.testing.assert_array_equal(rows, offline_ones[name])


def test_a_source_that_is_one_list_is_dealt_out(out):
    task = cached("paraphrase_sgdx", out)
    assert len(list((out / task.name).glob("test.tfrecord-*-of-00032"))) == 32

    def lines(use_cached):
        found = stream(task, "test", shuffle=False, use_cached=use_cached)
        return sorted(
            json.dumps(e, default=bytes.decode, sort_keys=True) for e in found
        )

    assert lines(True) == lines(False)


def test_the_layout(out):
    task = cached("d3st_sgd", out)
    folder = out / "d3st_sgd"
    shards = len(task.source.list_shards("validation"))
    assert {path.name for path in folder.iterdir()} == {
        "COMPLETED",
        "meta.json",
        *(
            f"{kind}.{split}.json"
            for kind in ("info", "stats")
            for split in task.splits
        ),
        *(
            f"{split}.tfrecord-{i:05}-of-{len(task.source.list_shards(split)):05}"
            for split in task.splits
            for i in range(len(task.source.list_shards(split)))
        ),
    }
    ids = {"dtype": "int32", "shape": [None]}
    text, number = {"dtype": "string", "shape": []}, {"dtype": "int32", "shape": []}
    assert json.loads((folder / "info.validation.json").read_text()) == {
        "num_shards": shards,
        "seqio_version": seqio.__version__,
        "features": {
            **dict.fromkeys(("inputs", "targets"), ids),
            **dict.fromkeys(("turn", "frame"), number),
            **dict.fromkeys(
                (
                    "inputs_pretokenized",
                    "targets_pretokenized",
                    "dialogue_id",
                    "service",
                    "key",
                    "split",
                ),
                text,
            ),
        },
    }
    words = tasks.vocabulary.default_vocabulary()
    counted = {
        field: [
            len(words.encode(getattr(example, field)))
            for example in task.source.cache("validation").read()
        ]
        for field in ("inputs", "targets")
    }
    assert json.loads((folder / "stats.validation.json").read_text()) == {
        "examples": len(counted["inputs"]),
        "inputs_tokens": sum(counted["inputs"]),
        "inputs_max_tokens": max(counted["inputs"]),
        "targets_tokens": sum(counted["targets"]),
        "targets_max_tokens": max(counted["targets"]),
    }


def test_examples_are_written_as_seqio_writes_them():
    example = {
        "ids": np.array([3, 0, -7], np.int32),
        "empty": np.zeros(0, np.int32),
        "text": b"a\xc3\xa4\0",
        "turn": np.int32(4),
        "weights": np.array([[0.5, 1.5]], np.float32),
    }
    found = tf.train.Example.FromString(offline._serialized(example))
    assert found == seqio.dict_to_tfexample(example)
    flags = tf.train.Example.FromString(offline._serialized({"yes": np.bool_(True)}))
    assert flags.features.feature["yes"].int64_list.value == [1]


def test_ids_of_the_end_and_padding_do_not_count():
    task = seqio.TaskRegistry.get("d3st_sgd")
    stats = {"examples": 0}
    for ids in ([5, 1, 6, 0, 0], [7]):
        offline._count(stats, task, {"inputs": np.array(ids, np.int32), "turn": 3})
    assert stats == {"examples": 2, "inputs_tokens": 3, "inputs_max_tokens": 2}


def test_what_is_there_is_not_made_again(out, monkeypatch):
    task = cached("paraphrase_aug", out)
    monkeypatch.setattr(offline, "_write", None)
    folder, examples = offline.cache_task(task, out)
    assert examples["train"] == len(stream(task, "train", use_cached=True))
    # Tasks of another program, or with another vocabulary.
    (folder / "meta.json").write_text("{}")
    with pytest.raises(
        UserError, match=r"holds something else than this cache: .*--out"
    ):
        offline.cache_task(task, out)


def test_damage_is_made_good(out, tmp_path):
    task = seqio.get_mixture_or_task("d3st_eda_v1")
    folder, _ = offline.cache_task(task, tmp_path)
    shard = next(folder.glob("train.tfrecord-00000-*"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1])
    offline.cache_task(task, tmp_path)
    assert shard.read_bytes() == whole


def test_errors_of_reading(out, tmp_path, monkeypatch):
    task = seqio.get_mixture_or_task("t5dst_sgd")
    with pytest.raises(
        UserError,
        match=r"task 't5dst_sgd' is in no cache folder \(.*out\)\. Make it with "
        r"`jaxaug data cache --task t5dst_sgd --out DIR` .*"
        r"--seqio_additional_cache_dirs=DIR",
    ):
        task.get_dataset(LENGTHS, "train", use_cached=True)
    task = cached("d3st_eda_v1", out)
    with pytest.raises(UserError, match=r"d3st_eda_v1' has no split 'test'"):
        task.get_dataset(LENGTHS, "test", use_cached=True)
    monkeypatch.setattr(cached_task, "file_digest", lambda path: "another")
    with pytest.raises(UserError, match="has ids of another vocabulary than"):
        task.get_dataset(LENGTHS, "train", use_cached=True)


def test_errors_of_writing(out):
    with pytest.raises(UserError, match=r"'d3st_x' is no registered task; \d+ are: "):
        offline._chosen(["d3st_x"], [])
    plain = seqio.Task("plain", source=None, output_features={})
    with pytest.raises(UserError, match="no seqio.CacheDatasetPlaceholder"):
        offline.cache_task(plain, out)
    (out / "a file").touch()
    with pytest.raises(
        UserError, match=r"/d3st_sgd cannot be made: .* name another folder \(--out\)\."
    ):
        offline.cache_task(seqio.TaskRegistry.get("d3st_sgd"), out / "a file")


def test_modules_are_those_of_the_current_folder_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "tasks_of_mine.py").write_text("import one_that_lacks\n")
    with pytest.raises(ModuleNotFoundError, match="one_that_lacks"):
        offline._import(["tasks_of_mine"])
    with pytest.raises(
        UserError,
        match=r"^--module mine\.tasks: there is no module 'mine'\. Name one of",
    ):
        offline._import(["mine.tasks"])


def test_tokens_are_counted_from_the_cache(out):
    task = cached("d3st_aug_v1", out)
    counts = task.token_counts("train", use_cached=True)
    stats = task.get_cached_stats("train")
    for feature in ("inputs", "targets"):
        assert counts.longest(feature) == stats[f"{feature}_max_tokens"] + 1
        assert sum(counts.lengths[feature] - 1) == stats[f"{feature}_tokens"]
    assert counts.unknown == 0


def test_persona_chat(out, tmp_path, monkeypatch):
    """Ids of persona and history are separate, because lengths are known later."""
    monkeypatch.setenv("JAXAUG_PERSONACHAT_DIR", str(tmp_path))
    lines = [
        f"{n} your persona: i like {word}." for n, word in ((1, "tea"), (2, "cats"))
    ]
    lines += ["3 hi , how are you ?\tgood , and you ?", "4 fine .\tnice , i like tea ."]
    for split in ("train", "valid"):
        path = tmp_path / f"{split}_self_original_no_cands.txt"
        path.write_text("\n".join(lines) + "\n")
    words = tasks.vocabulary.default_vocabulary()
    task = personachat.PersonaTask(
        "persona",
        source=seqio.FunctionDataSource(
            lambda split, shuffle_files, seed=None: personachat._dataset(
                "persona",
                lambda split: personachat._plain("self", "original", split),
                personachat.persona.PersonaOptions(),
                split,
                shuffle_files,
                seed,
            ),
            splits=["train"],
        ),
        output_features=dict.fromkeys(
            ("inputs", "targets"), seqio.Feature(words, add_eos=True)
        ),
        preprocessors=[
            personachat.encode,
            seqio.CacheDatasetPlaceholder(),
            personachat.fit,
            seqio.preprocessors.append_eos_after_trim,
        ],
    )
    offline.cache_task(task, out)
    for lengths in (None, {"inputs": 12, "targets": 4}, {"inputs": 30, "targets": 8}):
        found = [
            sorted(
                json.dumps(
                    {k: np.asarray(e[k]).tolist() for k in sorted(e)}, default=str
                )
                for e in task.get_dataset(
                    lengths, "train", shuffle=False, use_cached=use_cached
                ).as_numpy_iterator()
            )
            for use_cached in (False, True)
        ]
        assert found[0] == found[1] and len(found[0]) == 2
    fed = [task.examples("train", use_cached) for use_cached in (False, True)]
    rows = [
        sorted(found.get(n, lengths)["inputs"].tolist() for n in range(2))
        for found in fed
    ]
    assert rows[0] == rows[1]


def test_the_command(python, tmp_path):
    minisgd.write(
        tmp_path / "data", train_dialogues=4, dev_dialogues=2, test_dialogues=2
    )
    command = [python, "-m", "jaxaug.cli", "data", "cache", "--out", tmp_path / "out"]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 1
    assert "name tasks (--task) or mixtures (--mixture)" in found.stderr
    command += ["--data_dir", tmp_path / "data", "--mixture", "d3st_aug_2x"]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    for name in ("d3st_sgd", "d3st_aug_v1"):
        stats = json.loads((tmp_path / "out" / name / "stats.train.json").read_text())
        assert f"{tmp_path / 'out' / name}: train {stats['examples']}" in found.stderr
