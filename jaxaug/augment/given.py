"""Variants that a run reads: those that it measures, and those its report stands beside."""

from collections.abc import Mapping

from etils import epath

from jaxaug.augment import descriptions
from jaxaug.augment.config import Config
from jaxaug.core.files import PathLike
from jaxaug.data import folders
from jaxaug.data.rename import renaming
from jaxaug.data.schema import Schema, read_schema


def folder(data_dir: PathLike, name: str) -> epath.Path:
    """`sgdx`, or a folder."""
    if name == "sgdx":
        return folders.sgdx_folder(data_dir)
    return epath.Path(name).expanduser()


def schemas_in(variants: epath.Path) -> list[epath.Path]:
    """Of all variants in a folder."""
    return [
        folders.variant_schema_path(variants, variant, split)
        for variant in folders.variant_names(variants)
        for split in folders.variant_splits(variants, variant)
    ]


def texts(
    config: Config, data_dir: PathLike, schema: Schema, split: str
) -> list[Mapping[str, str]]:
    """Texts of the variants of a folder, matched by position."""
    found: list[Mapping[str, str]] = []
    for number in range(1, config.variants + 1):
        file = path(config, data_dir, split, number)
        variant = read_schema(file)
        renaming(schema, variant, str(file))
        items = descriptions.descriptions(variant, split, config.names)
        found.append({item.id: item.text for item in items})
    return found


def path(config: Config, data_dir: PathLike, split: str, number: int) -> epath.Path:
    """`v1/<split>/schema.json`, or `v1/schema.json` where there is one split only."""
    found = folder(data_dir, config.options["folder"])
    flat = found / f"v{number}" / "schema.json"
    if len(config.splits) == 1 and flat.exists():
        return flat
    return folders.variant_schema_path(found, f"v{number}", split)
