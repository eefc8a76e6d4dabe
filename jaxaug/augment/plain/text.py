"""`jaxaug augment text`: other wordings of any text, by one scheme or several."""

import sys
from collections.abc import Callable, Sequence

from etils import epath

from jaxaug.augment.arguments import Text
from jaxaug.augment.plain import chain
from jaxaug.augment.plain.chain import Step
from jaxaug.core import cache_folder
from jaxaug.core.digests import digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import write_text
from jaxaug.core.shards import Json, Shards
from jaxaug.data import tables
from jaxaug.paraphrase.arguments import Paraphrase


def run(given: Text) -> int:
    """Runs the verb; see `jaxaug augment text --help`."""
    names = [name.strip() for name in given.scheme.split(",")]
    steps = chain.steps(names, given.option, given.model, given.sampler)
    print(augment_text(given, steps))
    return 0


def augment_text(given: Text, steps: Sequence[Step]) -> str:
    """Writes other wordings of the texts in a file.

    Outputs of models are kept in shards, so an interrupted run resumes. See `tables`
    for the formats, and `chain.apply` for the random draws. The output file must not
    exist, unless an identical call has written it.

    Args:
        given: files, number, and seed.
        steps: steps from `chain.steps`.

    Returns:
        A summary, to be printed.

    Raises:
        UserError: an argument or the input is wrong, or `out` is another file.
    """
    num, seed = given.num, given.seed
    jobs = [step.job(seed, num) for step in steps if step.method is None]
    shards = Shards(cache_folder.cache_dir() / "augment")
    found = rewritten(
        given,
        ",".join(step.name for step in steps),
        lambda: chain.key_of(steps, num, seed),
        lambda texts: chain.apply(steps, texts, num, seed, shards),
    )
    if isinstance(found, str):
        return found
    flat = [(text, o) for text, own in zip(*found, strict=True) for o in own]
    changed = sum(text != output for text, output in flat)
    said = f"{changed:,} of {len(flat):,} outputs differ from their text; "
    said += f"wrote {given.out}"
    return "\n".join([said, *(job.endpoint.spent() for job in jobs if job.endpoint)])


def rewritten(
    given: Text | Paraphrase,
    scheme: str,
    key: Callable[[], Json],
    make: Callable[[list[str]], chain.Outputs],
) -> tuple[list[str], chain.Outputs] | str:
    """Writes outputs for the texts of a file in the format of the file.

    Args:
        given: files, number, and seed; without `out`, standard output is written.
        scheme: name of the scheme, for the column `scheme`.
        key: returns everything that determines the outputs in addition to the texts.
        make: texts -> outputs of each. A line without an output becomes a blank line.

    Returns:
        The texts and their outputs, or a message if `out` is complete.

    Raises:
        UserError: an argument or the input is wrong, or `out` is another file.
    """
    path, out, num, seed = given.input, given.out, given.num or 1, given.seed
    table = tables.read(path, given.column)
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
