"""The verb `jaxaug report`: tables, intervals, differences, and output files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from etils import epath
from jaxaug_base.files import absolute

from jaxaug.core.errors import UserError
from jaxaug.core.figures import check_picture, new_figure
from jaxaug.core.files import check_writable, write_text
from jaxaug.core.text import printable
from jaxaug.metrics.arguments import Report
from jaxaug.metrics.power import text_power
from jaxaug.metrics.report import (
    Run,
    aggregate_seeds,
    read_runs,
    report_files,
    split_seed,
    text_table,
    write_tables,
)
from jaxaug.metrics.report_page import write_page
from jaxaug.metrics.statistics import (
    differences_csv,
    statistics_of,
    text_tables,
    with_intervals,
)
from jaxaug.metrics.training import read


def run(arguments: Report) -> int:
    """Runs `jaxaug report RUN...`: prints the tables, and writes HTML, CSV, and PNG."""
    if arguments.png:
        check_picture(arguments.png)
    for name in ("html", "csv", "png"):
        if path := getattr(arguments, name):
            check_writable(path, f"--{name}")
    if arguments.html:
        new_figure(arguments.html, 1, 1)  # Checks early that matplotlib is installed.
    shown = arguments.runs if arguments.html else ()
    trainings = {name: found for name in shown if (found := read(name))}
    alone = [name for name in trainings if not report_files(name)]
    runs = read_all([name for name in arguments.runs if name not in alone])
    statistics = statistics_of(runs, arguments.resamples)
    rows = with_intervals([*runs, *aggregate_seeds(runs)], statistics)
    if rows:
        print(text_table(rows))
        print(text_tables(statistics))
        if arguments.power:
            print(text_power(statistics))
    for name in alone:
        print(f"{printable(name)}: no robustness report; its training is on the page")
    write_tables(rows, arguments.csv, arguments.png)
    if arguments.csv:
        table = epath.Path(arguments.csv).expanduser()
        table = table.with_suffix(".differences.csv")
        if statistics.differences:
            write_text(table, differences_csv(statistics))
        else:  # A file of an earlier comparison must not remain next to this one.
            table.unlink(missing_ok=True)
    if arguments.html:
        write_page(arguments.html, rows, statistics, [*trainings.values()])
        print(f"written: {printable(arguments.html)}")
    return 0


def read_all(names: Sequence[str]) -> list[Run]:
    """Returns the rows of all arguments, each once.

    A run's name is preceded by its parent folder in two cases: if a run of its
    configuration shares its name with another run, or if the name is only a seed.

    Raises:
        UserError: a run is given twice.
    """
    found = [
        (printable(absolute(name).parent.name), row)
        for name in names
        for row in read_runs(name)
    ]
    for place, count in Counter(row.place for _, row in found).items():
        if count > 1:
            raise UserError(
                f"{place} is given {count} times. Give each run once: its seeds would "
                f"be counted twice."
            )
    counts = Counter(row.name for _, row in found)
    shared = {split_seed(name)[0] for name, count in counts.items() if count > 1}
    return [
        replace(row, name=f"{parent}/{row.name}")
        if parent and (split_seed(row.name)[0] in shared or _is_seed(row.name))
        else row
        for parent, row in found
    ]


def _is_seed(name: str) -> bool:
    return split_seed(f"_/{name}")[0] == "_"
