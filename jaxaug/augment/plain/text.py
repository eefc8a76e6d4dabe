"""`jaxaug augment text`: other wordings of any text, by one scheme or several."""

import argparse
import sys
from collections.abc import Callable, Sequence

from etils import epath

from jaxaug.augment.plain import chain
from jaxaug.augment.plain.chain import Step
from jaxaug.core import cache_folder, typed
from jaxaug.core.digests import digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, write_text
from jaxaug.core.shards import Json, Shards
from jaxaug.data import tables


def run(arguments: argparse.Namespace) -> int:
    """Runs the verb; see `jaxaug augment text --help`."""
    names = [name.strip() for name in arguments.scheme.split(",")]
    found = chain.steps(names, arguments.option, arguments.model, arguments.sampler)
    said = augment_text(
        arguments.input,
        arguments.out,
        found,
        column=arguments.column,
        num=arguments.num,
        seed=arguments.seed,
    )
    print(said)
    return 0


def augment_text(
    path: PathLike,
    out: PathLike,
    steps: Sequence[Step],
    *,
    column: str | None = None,
    num: int = 1,
    seed: int = 0,
) -> str:
    """Writes other wordings of the texts in a file.

    Outputs of models are kept in shards, so an interrupted run resumes. See `tables`
    for the formats, and `chain.apply` for the random draws.

    Args:
        path: lines, .csv, .tsv, or .jsonl; `-` is lines from standard input.
        out: file to write, in the format of the input; JSON lines for several outputs
            of lines. It must not exist, unless an identical call has written it.
        steps: steps from `chain.steps`.
        column: column of the texts; None is `text`, or the only column.
        num: outputs of each text.
        seed: seed of all random draws.

    Returns:
        A summary, to be printed.

    Raises:
        UserError: an argument or the input is wrong, or `out` is another file.
    """
    jobs = [step.job(seed, num) for step in steps if step.method is None]
    shards = Shards(cache_folder.cache_dir() / "augment")
    found = rewritten(
        path,
        out,
        ",".join(step.name for step in steps),
        lambda: chain.key_of(steps, num, seed),
        lambda texts: chain.apply(steps, texts, num, seed, shards),
        column=column,
        num=num,
        seed=seed,
    )
    if isinstance(found, str):
        return found
    flat = [(text, o) for text, own in zip(*found, strict=True) for o in own]
    changed = sum(text != output for text, output in flat)
    said = f"{changed:,} of {len(flat):,} outputs differ from their text; wrote {out}"
    return "\n".join([said, *(job.endpoint.spent() for job in jobs if job.endpoint)])


def rewritten(
    path: PathLike,
    out: PathLike | None,
    scheme: str,
    key: Callable[[], Json],
    make: Callable[[list[str]], chain.Outputs],
    *,
    column: str | None,
    num: int,
    seed: int,
) -> tuple[list[str], chain.Outputs] | str:
    """Writes outputs for the texts of a file in the format of the file.

    Args:
        path: see `augment_text`, also for `column`, `num`, and `seed`.
        out: file to write; None is standard output.
        scheme: name of the scheme, for the column `scheme`.
        key: returns everything that determines the outputs in addition to the texts.
        make: texts -> outputs of each. A line without an output becomes a blank line.

    Returns:
        The texts and their outputs, or a message if `out` is complete.

    Raises:
        UserError: an argument or the input is wrong, or `out` is another file.
    """
    if num < 1:
        raise UserError(f"--num is {num}: give at least 1.")
    typed.check_seed(seed, "--seed")
    table = tables.read(path, column)
    tables.check(table, path, out or tables.STDIN, num)
    texts = [row.text for row in table.rows]
    work = [
        *[table.kind, table.column, table.header, table.delimiter],
        *[table.newline, table.mark, table.rows, key(), num, seed],
    ]
    note = cache_folder.cache_dir() / "augment_text" / digest_of(work)
    target = None if out is None else epath.Path(out).expanduser()
    if target is not None and target.exists():
        if note.exists() and note.read_text() == file_digest(target):
            return f"{out} is complete: nothing to do"
        raise UserError(
            f"--out {out}: exists, and is not the output of this call. Choose another "
            "file, or remove it."
        )
    outputs = make(texts)
    # Lines stay aligned with their texts.
    is_aligned = table.kind == tables.LINES and num == 1
    shown = [own or [""] if is_aligned else own for own in outputs]
    content = tables.written(table, shown, scheme, num)
    if target is None:
        sys.stdout.write(content)
    else:
        write_text(target, content)
        write_text(note, file_digest(target))
    return texts, outputs
