"""The verb `jaxaug format d3st|json|sdt|sdtind|t5dst`: writes a split as TSV."""

import sys

from jaxaug_base.files import replacing

from jaxaug.core.arguments import fields_of
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, reach
from jaxaug.data import folders
from jaxaug.feed import parallel
from jaxaug.formats import arguments as settings
from jaxaug.formats.d3st import D3STOptions
from jaxaug.formats.json_tools import JSONOptions
from jaxaug.formats.records import Example
from jaxaug.formats.sdt import SDTIndOptions, SDTOptions
from jaxaug.formats.t5dst import T5DSTOptions, slot_of

D3ST_COLUMNS = ("inputs", "targets", "dialogue_id", "turn", "frame")
T5DST_COLUMNS = ("inputs", "targets", "dialogue_id", "turn", "service", "slot")


_OPTIONS = {
    kind.family: kind
    for kind in (D3STOptions, JSONOptions, SDTOptions, SDTIndOptions, T5DSTOptions)
}
_OF_CORPUS = {"split"}  # Options set by `parallel.bound`.


def run(arguments: settings.Corpus) -> int:
    """Runs the verb `jaxaug format`; see its `--help`."""
    kind = _OPTIONS[arguments.verb.rpartition(" ")[2]]
    names = {one.name for one in fields_of(kind)} - _OF_CORPUS
    given = {name: value for name, value in vars(arguments).items() if name in names}
    corpus = parallel.Corpus(
        str(folders.resolve_data_dir(arguments.data_dir)),
        arguments.split,
        arguments.variant,
    )
    count = export(
        corpus, kind(**given), arguments.out, arguments.epoch, arguments.workers
    )
    print(f"{arguments.out}: {count} examples", file=sys.stderr)
    return 0


def export(
    corpus: parallel.Corpus,
    options: parallel.Options,
    out: PathLike,
    epoch: int = 0,
    workers: int = 0,
) -> int:
    """Writes a split as TSV with a header; returns the number of examples.

    The file appears under its name only when it is complete.

    Args:
        out: the file, local or gs://; its folder is created.
        epoch: number of the shuffled order.
        workers: processes, 0 for one per core; the bytes do not depend on it.

    Raises:
        UserError: data is missing or wrong, or `out` is a folder or unreachable.
    """
    target = reach(out, "Name the TSV file to write (--out).")
    if target.is_dir():
        raise UserError(f"{out}: is a folder. Name the TSV file to write (--out).")
    columns = T5DST_COLUMNS if options.per_slot else D3ST_COLUMNS
    parallel.forget_schemas()
    options = parallel.bound(options, corpus)
    jobs = [
        parallel.FormatJob(corpus, path, options, (epoch,)) for path in corpus.files()
    ]
    total = 0
    with replacing(target) as temporary, temporary.open("wb") as file:
        file.write(parallel.row(columns))
        for count, text in parallel.in_order(
            _rows, jobs, parallel.worker_count(workers), f"format {corpus.split}"
        ):
            file.write(text)
            total += count
    return total


def _rows(job: parallel.FormatJob) -> tuple[int, bytes]:
    def row(e: Example) -> bytes:
        rest = (e.service, slot_of(e.key)) if job.options.per_slot else (e.frame,)
        return parallel.example_row(e, e.dialogue_id, e.turn, *rest)

    (rows,) = parallel.format_file(job, row)
    return len(rows), b"".join(rows)
