"""A scheme and metrics without a model, for whole runs of `jaxaug augment`."""

import json

from jaxaug.augment import config as configs
from jaxaug.augment import descriptions, run
from jaxaug.augment.schemes.registry import Job
from jaxaug.data.schema import read_schema

FIELDS = {
    "scheme": "fake",
    "variants": 3,
    "metrics": {"far": {"path": "own_metrics:far"}, "string_similarity": {}},
    "select": "tree",
    "tree": {"levels": ("far", "string_similarity"), "decisions": ("max", "min"),
     "constraints": ("far <= 0.5",), "diversity": "far"},
    "shard_size": 2,
}  # fmt: skip
METRICS = """
import numpy as np

def far(sources, candidates):
    pairs = [(set(a.split()), set(b.split())) for a, b in zip(sources, candidates)]
    return np.array([1 - len(a & b) / len(a | b) for a, b in pairs])

def broken(sources, candidates):
    return np.full(len(sources), np.nan)
"""


class Fake:
    """Appends words to a text; may fail at one text."""

    def __init__(self):
        self.seen, self.crash_at = [], None
        self.endings = ["", "now", "now", "or then", "in the long run of all things"]

    def run(self, given):
        for text in given:
            if text == self.crash_at:
                raise RuntimeError("the paraphraser is gone")
            self.seen.append(text)
        return [[f"{text} {end}" for end in self.endings] for text in given]

    def jobs(self, seed, **options):
        key = {"fake": self.endings, **options}
        return [Job("fake", lambda: key, self.run, len(self.endings))]


def go(data_dir, out, **fields):
    return run.augment(configs.of(FIELDS | fields, "test"), data_dir, out)


def lines(out):
    text = (out / "candidates.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def texts_of(out, variant, split="train"):
    schema = read_schema(out / variant / split / "schema.json")
    return {d.id: d.text for d in descriptions.descriptions(schema, split)}


def files_of(out):
    return {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
