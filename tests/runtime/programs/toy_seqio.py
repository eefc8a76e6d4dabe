"""A SeqIO task over the text files `data/<split>.tsv` of the working folder."""

import os
import random
from pathlib import Path

import seqio
import tensorflow as tf

SPLITS = {"train": 60, "validation": 9, "test": 11}
VOCABULARY = seqio.ByteVocabulary()


def vocabulary() -> seqio.Vocabulary:
    return VOCABULARY


def write_files(folder: Path) -> None:
    """Writes the data: each target repeats its input."""
    rng = random.Random(0)
    folder.mkdir()
    for split, count in SPLITS.items():
        words = ["".join(rng.choices("abc", k=rng.randint(1, 5))) for _ in range(count)]
        (folder / f"{split}.tsv").write_text("".join(f"{w}\t{w}\n" for w in words))


def split_line(dataset: tf.data.Dataset) -> tf.data.Dataset:
    def columns(line: tf.Tensor) -> dict[str, tf.Tensor]:
        parts = tf.strings.split(line, "\t")
        return {"inputs": parts[0], "targets": parts[1]}

    return dataset.map(columns)


def exact(targets: list, predictions: list) -> dict[str, float]:
    pairs = zip(targets, predictions, strict=True)
    return {"exact": sum(t == p for t, p in pairs) / len(targets)}


seqio.TaskRegistry.add(
    "toy",
    source=seqio.TextLineDataSource(
        {split: os.path.join("data", f"{split}.tsv") for split in SPLITS}
    ),
    preprocessors=[
        split_line,
        seqio.preprocessors.tokenize,
        seqio.preprocessors.append_eos,
    ],
    output_features={
        name: seqio.Feature(VOCABULARY, add_eos=True) for name in ("inputs", "targets")
    },
    metric_fns=[exact],
)
