"""Options of the verbs that show things; this module imports quickly."""

from typing import Annotated

from jaxaug.core.arguments import Arg, Count, DataDir, File, Settings, Split, adds


class Errors(Settings, verb="errors", target="jaxaug.look.errors_page:run"):
    """Failures of a run: which slots, under which wording of the schema, with examples.

    Attributes:
        run: folder of a run that has been evaluated
        html: page to write, self-contained
        task: a task such as d3st_sgdx_v1, or a format such as t5dst (default:
            everything evaluated, if it is in one format)
        limit: rows of each printed table; examples of each slot and kind of failure on
            the page
        data_dir: the data of the evaluation (default: $JAXAUG_DATA_DIR, else the folder
            that the run recorded, else the embedded MiniSGD)
        split: the split of the evaluation (default: as in the run's report, else test)
        exact: exact instead of fuzzy value match
    """

    run: Annotated[str, Arg("RUN")]
    html: File = None
    task: Annotated[str | None, Arg(metavar="NAME")] = None
    limit: Count = 5
    data_dir: str | None = None
    split: Split | None = None
    exact: bool = False


class Tasks(DataDir, verb="tasks", target="jaxaug.look.tasks:run"):
    """List tasks and mixtures of the data folder with splits, sizes and parts.

    Attributes:
        name: only matching names, such as 'd3st_*x' (default: all)
        count: count the examples of large data sets too
        all: also list other tasks: pairs of texts, and Persona-Chat
    """

    name: Annotated[str, Arg("NAME-GLOB")] = "*"
    count: bool = False
    all: bool = False


add_errors, add_tasks = adds(Errors), adds(Tasks)
