"""`jaxaug data variants`: writes the dialogues of a split renamed to a variant."""

import json

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_bytes, read_text, write_text
from jaxaug.core.progress import progress
from jaxaug.data import folders, sgd
from jaxaug.data.arguments import Variants
from jaxaug.data.rename import rename_dialogue


def write_variant(
    data_dir: PathLike,
    split: str,
    variant: str,
    out: PathLike,
    variants_dir: PathLike | None = None,
) -> list[epath.Path]:
    """Writes `out/<variant>/<split>/`: the variant's schema and renamed dialogues.

    The dialogue files equal the output of the generation script of SGD-X, including key
    order and indentation. The schema is copied. `out/<variant>` is therefore a data
    folder for any tool that reads SGD. The schema is written last; readers reject a
    folder without it. Existing files are never overwritten, so they must have the
    expected content.

    Args:
        data_dir: folder in the layout of the SGD repository.
        split: "train", "dev" or "test".
        variant: "v1", "v2", ...
        out: folder to write; may be `variants_dir` itself.
        variants_dir: folder of the variants; None means `data_dir/sgd_x/data`.

    Returns:
        The files written, the schema last.

    Raises:
        UserError: an input file is missing or invalid, the target folder has dialogue
            files that the split lacks, or an existing file has other content.
    """
    variants_dir = variants_dir or folders.sgdx_folder(data_dir)
    schema = sgd.read_schema_of(data_dir, split)
    names = sgd.renaming_of(data_dir, split, variant, variants_dir)
    assert names is not None  # `renaming_of` returns None only without a variant.
    sources = sgd.dialogue_files(data_dir, split)
    target = epath.Path(out) / variant / split
    if target.absolute() == sources[0].parent.absolute():
        raise UserError(
            f"{target} holds the original dialogues, which would be overwritten. "
            "Choose another --out."
        )
    known = {path.name for path in sources}
    for path in sorted(target.glob("dialogues_*.json")) if target.is_dir() else ():
        if path.name not in known:
            raise UserError(
                f"{path}: is of unknown origin, as {data_dir} has no such file in "
                f"{split}. Choose another --out, or remove it."
            )
    written = []
    for path in progress(sources, desc=f"{variant}/{split}", unit="file"):
        dialogues = sgd.read_dialogue_json(path, schema)
        for dialogue in dialogues:
            rename_dialogue(dialogue, names)
        written.append(target / path.name)
        _put(written[-1], json.dumps(dialogues, indent=2, sort_keys=True))
    source = folders.variant_schema_path(variants_dir, variant, split)
    written.append(target / "schema.json")
    _put(written[-1], read_text(source, "Restore the file."))
    return written


def _put(path: epath.Path, text: str) -> None:
    """Writes a new file; raises `UserError` if it exists with other content."""
    if not path.exists():
        write_text(path, text)
    elif read_bytes(path, "Choose another --out.") != text.encode():
        raise UserError(
            f"{path}: exists with other content, and files are never overwritten. "
            "Choose another --out, or remove it."
        )


def run(arguments: Variants) -> int:
    """Runs `jaxaug data variants`."""
    data_dir = folders.resolve_data_dir(arguments.data_dir)
    files = write_variant(data_dir, arguments.split, arguments.variant, arguments.out)
    print(f"wrote {len(files) - 1} dialogue files and a schema to {files[-1].parent}")
    return 0
