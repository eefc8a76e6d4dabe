"""Arguments of `jaxaug evaluate` and `jaxaug report`; this module imports quickly."""

import argparse

from jaxaug.core import arguments


def add_evaluate(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `evaluate`."""
    parser = verbs.add_parser(
        "evaluate", help="score predictions as the benchmarks define"
    )
    group = parser.add_subparsers(metavar="BENCHMARK", required=True)
    sgd = arguments.verb(
        group, "sgd", "jaxaug.metrics.evaluate:run_sgd", "SGD metrics (DSTC8 format)"
    )
    sgd.add_argument("--variant", help="v1..v5 (default: the original schema)")
    sgdx = arguments.verb(
        group,
        "sgdx",
        "jaxaug.metrics.evaluate:run_sgdx",
        "SGD-X: JGA per variant and schema sensitivity",
    )
    multiwoz = arguments.verb(
        group,
        "multiwoz",
        "jaxaug.metrics.multiwoz:run",
        "MultiWOZ: JGA per turn over all domains; any annotated spelling is correct",
    )
    multiwoz.add_argument(
        "--normalize",
        action="store_true",
        help="first normalize slot names, venues, foods, times, and types of both "
        "sides as MultiWOZ_Evaluation does",
    )
    for verb in (sgd, sgdx, multiwoz):
        arguments.data_dir(verb)
        arguments.split(verb)
        verb.add_argument("--predictions", required=True, help="folder of predictions")
        verb.add_argument("--output", required=True, help="JSON file to write")
    for verb in (sgd, sgdx):
        verb.add_argument(
            "--exact", action="store_true", help="exact instead of fuzzy value match"
        )
        verb.add_argument(
            "--joint_across_turn",
            action="store_true",
            help="joint accuracy over all frames of a turn",
        )


def add_report(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `report`."""
    parser = arguments.verb(
        verbs, "report", "jaxaug.metrics.report_verb:run", "compare finished runs"
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="model folders")
    parser.add_argument(
        "--html",
        help="page to write: tables, intervals, plots, and the training of each run",
    )
    parser.add_argument(
        "--csv", help="CSV file to write; differences go to NAME.differences.csv"
    )
    parser.add_argument("--png", help="PNG file to write")
    parser.add_argument(
        "--power",
        action="store_true",
        help="which differences the data can show, and the seeds and dialogues that "
        "smaller ones need",
    )
    parser.add_argument(
        "--resamples",
        type=arguments.whole(arguments.MANY),
        default=10_000,
        metavar="N",
        help="bootstrap resamples for the intervals (default: 10000)",
    )
