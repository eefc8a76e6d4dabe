"""Generated variants of a schema in the layout of SGD-X."""

import dataclasses
import json
from collections.abc import Mapping, Sequence

from etils import epath
from jaxaug_base.files import temporary_name

from jaxaug.augment.descriptions import with_texts
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.data import folders
from jaxaug.data.rename import renaming
from jaxaug.data.schema import Schema, read_schema, service_object


def write(
    out: PathLike,
    data_dir: PathLike,
    split: str,
    schema: Schema,
    texts: Sequence[Mapping[str, str]],
    first: int = 1,
) -> list[epath.Path]:
    """Writes `out/v1..vK/<split>/schema.json`, each of them whole; returns the paths.

    As in SGD-X, service names get the digit of the variant. All variants are written
    under temporary names, read back as a variant of `data_dir`, and then renamed. If
    one cannot be written, no file is changed.

    Args:
        out: a variants folder, such as `DATA_DIR/variants/<name>`.
        data_dir: folder of the original schema, which the check reads.
        split: "train", "dev", or "test".
        texts: for each variant, id of a description -> text; v1 is the most similar to
            the original. A description without an id keeps the original text.
        first: number of the first written variant; variants before it stay.

    Raises:
        UserError: there are no variants, a text is wrong (see
            `descriptions.with_texts`), or `out` holds further variants. It is also
            raised if a file cannot be written or differs when read back. Files of
            earlier runs stay unchanged.
    """
    if not texts:
        raise UserError(
            f"no variants to write to {out}: give the texts of at least v1."
        )
    folder = epath.Path(out)
    numbers = range(first, first + len(texts))
    _no_others(folder, split, numbers)
    variants = []
    for number, chosen in zip(numbers, texts, strict=True):
        services = with_texts(schema, split, chosen).services
        named = (dataclasses.replace(s, name=f"{s.name}{number}") for s in services)
        variants.append(Schema(tuple(named)))
    targets = [folder / f"v{number}" / split / "schema.json" for number in numbers]
    _write_all(targets, variants, folders.schema_path(data_dir, split))
    return targets


def to_json(schema: Schema) -> str:
    """Returns the schema as the text of a `schema.json`."""
    services = [service_object(service) for service in schema.services]
    return json.dumps(services, indent=2, ensure_ascii=False) + "\n"


def _no_others(folder: epath.Path, split: str, numbers: range) -> None:
    meant = {f"v{number}" for number in range(1, numbers.stop)}
    for name in folders.variant_names(folder):
        if name not in meant and split in folders.variant_splits(folder, name):
            raise UserError(
                f"{folder / name / split}: left by a run with more variants than the "
                f"{len(numbers)} of this one. Remove {folder / name}, or choose "
                "another --out."
            )


def _write_all(
    targets: Sequence[epath.Path], variants: Sequence[Schema], original: epath.Path
) -> None:
    """Writes files under temporary names, checks each, then renames them together."""
    parts = [temporary_name(target) for target in targets]
    made: list[epath.Path] = []
    renamed = 0
    path = targets[0]
    try:
        for path, part, variant in zip(targets, parts, variants, strict=True):
            made += _make_folder(path.parent)
            part.write_text(to_json(variant), encoding="utf-8")
            _check(part, path, variant, original)
        for path, part in zip(targets, parts, strict=True):
            part.replace(path)
            renamed += 1
    except BaseException as error:
        for part in parts:
            part.unlink(missing_ok=True)
        # A folder without a schema would count as a variant.
        for empty in reversed(made):
            if not any(empty.iterdir()):
                empty.rmdir()
        if isinstance(error, OSError):
            raise UserError(
                f"{path}: cannot be written ({error.strerror or error}); {renamed} of "
                f"{len(targets)} variants were changed. Free space or choose another "
                "--out, then run the command again."
            ) from error
        raise


def _make_folder(folder: epath.Path) -> list[epath.Path]:
    """Makes a folder; returns the new folders, the outer ones first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _check(
    part: epath.Path, target: epath.Path, meant: Schema, original: epath.Path
) -> None:
    """Raises `UserError` if the file differs from the intended variant."""
    found = read_schema(part)
    renaming(read_schema(original), found, str(target))
    if found != meant:
        raise UserError(
            f"{target}: the file read back differs from the written one. Check the "
            "disk, and run the command again."
        )
