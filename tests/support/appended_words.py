"""An augmentation scheme that appends words to texts, for runs without a model."""

import json

from jaxaug.augment import config as configs
from jaxaug.augment import decisions, run
from jaxaug.augment.schemes.registry import Job

COST = {"id": "train/0/slot/2", "source": "Cost of the ticket"}
ENDINGS = ("now", "or then", "so far", "in the long run of all things", "by and by")
FIELDS = {
    "scheme": "fake",
    "variants": 3,
    "metrics": {"string_similarity": {}},
    "select": "tree",
    "tree": {"levels": ("string_similarity",), "decisions": ("max",), "constraints": (),
     "diversity": "string_similarity"},
}  # fmt: skip


def jobs(seed, **options):
    """Returns the jobs of the scheme: each text with each of the endings."""

    def work(texts):
        return [[f"{text} {end}" for end in ENDINGS] for text in texts]

    return [Job("fake", lambda: [seed, options], work, len(ENDINGS))]


def go(data_dir, out, **fields):
    return run.augment(configs.of(FIELDS | fields, "test"), data_dir, out)


def decide(out, *lines):
    text = "".join(f"{json.dumps(COST | line)}\n" for line in lines)
    out.mkdir(exist_ok=True)
    (out / decisions.FILE).write_text(text)
