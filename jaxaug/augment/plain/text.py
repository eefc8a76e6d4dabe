"""`jaxaug augment text`: other wordings of any text, by one scheme or several."""

import argparse
from collections.abc import Sequence

from etils import epath

from jaxaug.augment.plain import chain
from jaxaug.augment.plain.chain import Step
from jaxaug.core import cache_folder, typed
from jaxaug.core.digests import digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, write_text
from jaxaug.core.shards import Shards
from jaxaug.data import tables


def run(arguments: argparse.Namespace) -> int:
    """The verb; see `jaxaug augment text --help`."""
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

    Outputs of models are kept in shards, so that a run that was stopped goes on. See
    `tables` for what is read and written, `chain.apply` for what is random.

    Args:
      path: lines, .csv, .tsv or .jsonl; `-` is lines from standard input.
      out: file to write, in the form of the input; JSON lines for several outputs of
        lines. It must not be there, unless the same call has written it.
      steps: from `chain.steps`.
      column: of the texts; None is `text`, or the only column.
      num: outputs of each text.
      seed: of everything that is random.

    Returns:
      What was done, to be printed.

    Raises:
      UserError: an argument or the input is wrong, or `out` is something else.
    """
    if num < 1:
        raise UserError(f"--num is {num}: give at least 1.")
    typed.check_seed(seed, "--seed")
    table = tables.read(path, column)
    tables.check(table, path, out, num)
    scheme = ",".join(step.name for step in steps)
    texts = [row.text for row in table.rows]
    # The same bytes come of the same texts around the same rest.
    rest = [table.kind, table.column, table.header, table.delimiter]
    work = [
        *rest,
        table.newline,
        table.mark,
        table.rows,
        chain.key_of(steps, num, seed),
        num,
        seed,
    ]
    note = cache_folder.cache_dir() / "augment_text" / digest_of(work)
    target = epath.Path(out).expanduser()
    if target.exists():
        if note.exists() and note.read_text() == file_digest(target):
            return f"{out} is complete: nothing to do"
        raise UserError(
            f"--out {out}: is there, and is not what this call writes. Choose another "
            "file, or remove it."
        )
    shards = Shards(cache_folder.cache_dir() / "augment")
    outputs = chain.apply(steps, texts, num, seed, shards)
    write_text(target, tables.written(table, outputs, scheme, num))
    write_text(note, file_digest(target))
    flat = [(text, o) for text, own in zip(texts, outputs, strict=True) for o in own]
    changed = sum(text != output for text, output in flat)
    said = f"{changed:,} of {len(flat):,} outputs differ from their text; wrote {out}"
    jobs = [step.job(seed, num) for step in steps if step.method is None]
    return "\n".join([said, *(job.endpoint.spent() for job in jobs if job.endpoint)])
