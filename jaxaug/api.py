"""The functions of `import jaxaug`; see docs/python.md."""

import dataclasses
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from jaxaug.augment import config as configs
from jaxaug.augment import plan as plans
from jaxaug.augment import run as augmentation
from jaxaug.core import checked as rules
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json
from jaxaug.core.installed import extras_of
from jaxaug.data import folders, sgd
from jaxaug.data.sgd import Dialogue
from jaxaug.metrics import evaluate as scores
from jaxaug.metrics.sensitivity import ORIGINAL

Services = list[dict[str, Any]]
_SPLIT = "train"
_GRAMMAR = "configs/augment/grammar.py"


def _schema(value: Any) -> str | None:
    problem = rules.path(value)
    return f"{problem}. Give a schema.json, or its services" if problem else None


def _split(value: Any) -> str | None:
    fits = isinstance(value, str) and value in folders.SPLITS
    return None if fits else f"give one of {', '.join(folders.SPLITS)}"


@rules.checked(
    schema=rules.either(rules.sequence(rules.of(Mapping, ""), ""), _schema),
    num=rules.count,
    config=rules.path,
    seed=rules.seed,
)
@extras_of("jaxaug.augment_schema")
def augment_schema(
    schema: PathLike | Sequence[Mapping[str, Any]],
    num: int = 5,
    *,
    config: str = _GRAMMAR,
    seed: int = 0,
) -> list[Services]:
    """Returns variants of a schema with reworded descriptions.

    Args:
        schema: file in the layout of SGD's `schema.json`, or its list of services.
        num: number of variants.
        config: config file, such as those in configs/augment. The default is the
            rewording grammar, which needs the extra `nlp` but no model.
        seed: random seed of the config.

    Returns:
        `num` schemas, the most similar one first. Services, slots, and intents keep the
        original order. As in SGD-X, names of services get the number of the variant. A
        description with too few rewordings keeps its text in some variants.

    Raises:
        UserError: the schema or an argument is invalid, or a requirement is not
            installed.
    """
    if is_file := isinstance(schema, str | os.PathLike):
        services = read_json(schema, "Name a schema.json in the layout of SGD.")
    else:
        services = list(schema)
    chosen = dataclasses.replace(
        configs.load(config),
        variants=num,
        splits=(_SPLIT,),
        report={},
        beside={},
        seed=seed,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = epath.Path(name)
        (folder / _SPLIT).mkdir()
        (folder / _SPLIT / "schema.json").write_text(_json(services))
        out = folder / "variants"
        try:
            augmentation.carry_out(plans.resolve(chosen, folder, out))
        except UserError as error:
            # The temporary file is gone when the message is read.
            file = folder / _SPLIT / "schema.json"
            name = str(schema) if is_file else "schema"
            raise UserError(str(error).replace(str(file), name)) from None
        return [
            json.loads((out / f"v{number}" / _SPLIT / "schema.json").read_text())
            for number in range(1, num + 1)
        ]


@rules.checked(
    predictions=rules.path,
    data_dir=rules.or_none(rules.path),
    split=_split,
    variant=rules.or_none(rules.text),
    exact=rules.flag,
)
@extras_of("jaxaug.evaluate")
def evaluate(
    predictions: PathLike,
    data_dir: PathLike | None = None,
    split: str = "test",
    variant: str | None = None,
    *,
    exact: bool = False,
) -> dict[str, Any]:
    """Scores predictions as the official evaluator of SGD does.

    Args:
        predictions: folder of `dialogues_*.json` with predicted states, or a folder
            with such a subfolder for each wording: `original`, `v1`, ..., `v5`.
        data_dir: data folder; None means `$JAXAUG_DATA_DIR`, else MiniSGD.
        split: "train", "dev" or "test".
        variant: wording of the predictions, such as "v1"; None means the original.
        exact: whether values must match exactly; by default they match fuzzily.

    Returns:
        Group, such as "#ALL_SERVICES" -> metrics in [0, 1], such as
        "joint_goal_accuracy". For several wordings, the report of `jaxaug evaluate
        sgdx` with schema sensitivity.

    Raises:
        UserError: data or predictions are missing or invalid.
    """
    data = folders.resolve_data_dir(data_dir)
    if not (epath.Path(predictions) / ORIGINAL).is_dir():
        return scores.evaluate_folder(data, split, predictions, variant, exact)[0]
    if variant is not None:
        raise UserError(
            f"variant is {variant!r}, and {predictions} has a folder for each wording. "
            "Leave variant out, or name one of these folders."
        )
    return scores.score_variants(data, split, predictions, exact, False)[0]


@rules.checked(
    data_dir=rules.or_none(rules.path),
    split=_split,
    variant=rules.or_none(rules.text),
)
def load_dialogues(
    data_dir: PathLike | None = None, split: str = "train", variant: str | None = None
) -> list[Dialogue]:
    """Returns the checked dialogues of a split, in file order.

    Args:
        data_dir: data folder; None means `$JAXAUG_DATA_DIR`, else MiniSGD.
        split: "train", "dev" or "test".
        variant: wording of the schema, such as "v1", to which the dialogues are
            renamed; None means the original.

    Returns:
        Dialogues with turns, frames, states, and spans in characters.

    Raises:
        UserError: a file is missing or invalid. The message gives file, dialogue, and
            field.
    """
    return list(sgd.read_dialogues(folders.resolve_data_dir(data_dir), split, variant))


def _json(services: Any) -> str:
    try:
        return json.dumps(services)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(
            f"schema: {error}. Give JSON values, as in schema.json."
        ) from None
