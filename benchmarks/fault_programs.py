"""The programs that `faults.py` disturbs: small data, commands, and their results.

For each fault, a program has a separate folder with `out` (its outputs) and `cache`
(`$JAXAUG_CACHE_DIR`). The functions run in a child process, except for `warm_up`, which
imports the shared modules.
"""

import hashlib
import importlib
import os
import random
import runpy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_MODULES = (
    "jax", "matplotlib.pyplot", "orbax.checkpoint", "t5x.train", "t5x.adafactor",
    "t5x.examples.t5.network", "jaxaug.cli", "jaxaug.augment.run",
    "jaxaug.curriculum.generate", "jaxaug.data.minisgd", "jaxaug.feed.tokens",
    "jaxaug.models.text.registry", "jaxaug.paraphrase.run",
    "jaxaug_papers.pcc.fewshot.run",
)  # fmt: skip

GIN = """
from __gin__ import dynamic_registration
import __main__ as train_script
from jaxaug.feed import sets
from t5x import utils
from t5x.examples.t5 import network

include 'configs/models/t5_mini.gin'
include 'configs/runs/scratch.gin'

MIXTURE_OR_TASK_NAME = 'd3st_aug_2x'
EVAL_MIXTURE = 'd3st_sgd'
TASK_FEATURE_LENGTHS = {'inputs': 64, 'targets': 24}
TRAIN_STEPS = 60
EVAL_PERIOD = 10
network.T5Config:
  emb_dim = 32
  num_heads = 3
  num_encoder_layers = 1
  num_decoder_layers = 1
  head_dim = 16
  mlp_dim = 64
train_script.train.infer_eval_dataset_cfg = None
train/utils.DatasetConfig.pack = False
utils.SaveCheckpointConfig.keep = 2
sets.accept.truncation = True
"""

FEWSHOT = """
def get_config():
    return {
        "dataset": "toy", "per_label": 3, "seeds": (0, 1), "encoder": "encoder",
        "eval_every": 8, "out": "unused",
        "triplet": {"hidden": 8, "output": 4, "batch_size": 8},
        "methods": (
            {"name": "none", "steps_per_level": 24},
            {"name": "EDA", "source": "sentence", "schedule": "constant",
             "steps_per_level": 24,
             "levels": ({"method": "eda", "num": 2, "replace": 0.2, "insert": 0.2,
                         "swap": 0.2, "delete": 0.2},)},
        ),
        "tables": ({"title": "Table", "rows": ("none", "EDA"), "reference": "none"},),
    }
"""


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        arguments: (folder of the fault, material) -> arguments of the command line.
        start: runs the program in this process and returns its exit status.
        result: folder of the fault -> (name -> digest) of outputs that must be equal.
    """

    arguments: Callable[[Path, Path], list[str]]
    start: Callable[[list[str]], int]
    result: Callable[[Path], dict[str, str]]


def warm_up() -> None:
    """Imports all modules without starting threads, so that children can be forked."""
    for name in _MODULES:
        importlib.import_module(name)
    tasks = len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self") else 1
    if tasks > 1:
        raise RuntimeError(f"{tasks} threads before the first fork")


def make_material(folder: Path) -> None:
    """Writes the inputs of all programs."""
    from jaxaug_papers import minisgd

    minisgd.write(
        folder / "data", train_dialogues=12, dev_dialogues=3, test_dialogues=3
    )
    (folder / "train.gin").write_text(GIN)
    (folder / "fewshot.py").write_text(FEWSHOT)
    lines = [
        "city where the bus leaves from", "find a hotel", "number of passengers",
        "date of the trip", "find a restaurant in the city", "time of the booking",
        "price of the ticket", "whether the room has a window", "name of the event",
        "cancel the booking", "address of the hotel", "rating of the restaurant",
    ]  # fmt: skip
    (folder / "lines.txt").write_text("\n".join(lines) + "\n")
    rng = random.Random(0)
    (folder / "toy").mkdir()
    words = " ".join(lines).split()
    for split, number in (("train", 6), ("test", 20)):
        rows = [
            f"{label}\t{' '.join(rng.sample(words[label::2], 6))}"
            for label in range(2)
            for _ in range(number)
        ]
        (folder / "toy" / f"{split}.txt").write_text("\n".join(rows))
    _write_encoder(folder / "encoder", sorted(set(words)))


def _write_encoder(folder: Path, words: list[str]) -> None:
    """Writes a BERT with random weights, the encoder of `levels` and `fewshot`."""
    import numpy as np
    import tokenizers
    from flax import traverse_util

    from jaxaug.models.weights import families, hf_folder

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    model = tokenizers.models.WordLevel({n: i for i, n in enumerate(names)}, "[UNK]")
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.post_processor = tokenizers.processors.BertProcessing(
        ("[SEP]", 3), ("[CLS]", 2)
    )
    made = folder.with_suffix(".json")
    backend.save(str(made))
    hf_config = {
        "model_type": "bert", "architectures": ["BertModel"], "vocab_size": len(names),
        "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 32, "max_position_embeddings": 64, "type_vocab_size": 2,
        "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0,
    }  # fmt: skip
    family = families.of_config(hf_config, "encoder")
    config = family.config(hf_config)
    shapes = traverse_util.flatten_dict(
        family.variables(family.build(config))["params"]
    )
    rng = np.random.default_rng(0)
    params = {
        path: 0.5 * rng.standard_normal(leaf.shape).astype("float32")
        for path, leaf in shapes.items()
    }
    hf_folder.write(
        folder,
        traverse_util.unflatten_dict(params),
        family.key_map(config),
        hf_config,
        hf_folder.Card(name="encoder", source="random"),
        {"tokenizer.json": made},
    )


def _verb(arguments: list[str]) -> int:
    """Runs `jaxaug`; the model random-tiny uses the small data instead of MiniSGD."""
    from jaxaug import cli
    from jaxaug_papers import minisgd

    data = os.environ["JAXAUG_DATA_DIR"]
    vars(minisgd)["materialise"] = lambda cache_dir: Path(data)
    return cli.main(arguments)


def _train(arguments: list[str]) -> int:
    sys.argv = ["t5x.train", *arguments]
    runpy.run_module("t5x.train", run_name="__main__", alter_sys=True)
    return 0


def _files(names: Callable[[Path], Iterator[Path]]) -> Callable[[Path], dict[str, str]]:
    def result(place: Path) -> dict[str, str]:
        return {
            str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(names(place))
            if path.is_file()
        }

    return result


def _checkpoint(place: Path) -> dict[str, str]:
    """Returns the arrays of the last checkpoint."""
    import numpy as np
    from flax import traverse_util
    from t5x import checkpoints

    tree = checkpoints.load_t5x_checkpoint(str(place / "out"))
    flat = traverse_util.flatten_dict(tree, sep="/", keep_empty_nodes=True)
    return {
        name: hashlib.sha256(np.asarray(leaf).tobytes()).hexdigest()
        for name, leaf in flat.items()
    }


def _schemas(place: Path) -> Iterator[Path]:
    return place.glob("out/v*/**/*.json")


PROGRAMS: dict[str, Program] = {
    "train": Program(
        lambda place, material: [
            f"--gin_file={material}/train.gin",
            f"--gin.MODEL_DIR='{place}/out'",
        ],
        _train,
        _checkpoint,
    ),
    "augment": Program(
        lambda place, material: [
            "augment",
            *("--config", str(ROOT / "configs/augment/eda.py")),
            *("--data_dir", str(material / "data")),
            *("--out", str(place / "out")),
        ],
        _verb,
        _files(_schemas),
    ),
    "paraphrase": Program(
        lambda place, material: [
            *("paraphrase", "--model", "random-tiny", "--sampler", "bottom_k"),
            *("--num", "3", "--batch_size", "2", "--max_length", "8"),
            *("--in", str(material / "lines.txt")),
            *("--out", str(place / "out" / "lines.jsonl")),
        ],
        _verb,
        _files(lambda place: place.glob("out/lines.jsonl")),
    ),
    "levels": Program(
        lambda place, material: [
            *("levels", "--model", "random-tiny", "--max_length", "8"),
            *("--quota", "bottom_k=2", "top_k_top_p=3", "--oversample", "2"),
            *("--implication", "none", "--beta", "-1"),
            *("--shard_size", "2", "--similarity", str(material / "encoder")),
            *("--in", str(material / "lines.txt")),
            *("--out", str(place / "out" / "levels.jsonl")),
        ],
        _verb,
        _files(lambda place: place.glob("out/levels.jsonl")),
    ),
    "fewshot": Program(
        lambda place, material: [
            *("fewshot", "--config", str(material / "fewshot.py")),
            *("--data_dir", str(material), "--out", str(place / "out")),
            *("--encoder", str(material / "encoder")),
        ],
        _verb,
        _files(lambda place: place.glob("out/*.csv")),
    ),
}


def compared(result: dict[str, str], expected: dict[str, str]) -> str:
    """Returns a description of the differences, or an empty text."""
    names = sorted(
        n for n in expected.keys() | result.keys() if expected.get(n) != result.get(n)
    )
    if not names:
        return ""
    return f"{len(names)} of {len(expected)} differ, such as {names[0]}"
