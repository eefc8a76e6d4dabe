"""The functions of `import jaxaug`; see docs/python.md."""

import dataclasses
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from etils import epath

from jaxaug.augment import config as configs
from jaxaug.augment import plan as plans
from jaxaug.augment import run as augmentation
from jaxaug.core import typed
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


def _file(value: Any) -> str | None:
    problem = typed.path_problem(value)
    return f"{problem}. Give a schema.json, or its services" if problem else None


Split = Literal["train", "dev", "test"]


@typed.checked
@extras_of("jaxaug.augment_schema")
def augment_schema(
    schema: Annotated[PathLike, _file] | Sequence[Mapping[str, Any]],
    num: typed.Count = 5,
    *,
    config: typed.Path = _GRAMMAR,
    seed: typed.Seed = 0,
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


@typed.checked
@extras_of("jaxaug.evaluate")
def evaluate(
    predictions: typed.Path,
    data_dir: typed.Path | None = None,
    split: Split = "test",
    variant: typed.Text | None = None,
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


@typed.checked
def load_dialogues(
    data_dir: typed.Path | None = None,
    split: Split = "train",
    variant: typed.Text | None = None,
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
