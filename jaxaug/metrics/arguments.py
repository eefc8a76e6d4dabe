"""Options of `jaxaug evaluate` and `jaxaug report`; this module imports quickly."""

from typing import Annotated

from jaxaug.core import arguments as args


class Evaluate(args.Settings, verb="evaluate"):
    """Score predictions as the benchmarks define."""


class Scoring(args.DataDir):
    """A command that scores predictions.

    Attributes:
        predictions: folder of predictions
        output: JSON file to write
    """

    split: args.Split
    predictions: str
    output: str


class Frames(Scoring):
    """A command that scores frames.

    Attributes:
        exact: exact instead of fuzzy value match
        joint_across_turn: joint accuracy over all frames of a turn
    """

    exact: bool = False
    joint_across_turn: bool = False


class SGD(Frames, verb="evaluate sgd", target="jaxaug.metrics.evaluate:run_sgd"):
    """SGD metrics (DSTC8 format).

    Attributes:
        variant: v1..v5 (default: the original schema)
    """

    variant: str | None = None


class SGDX(Frames, verb="evaluate sgdx", target="jaxaug.metrics.evaluate:run_sgdx"):
    """SGD-X: JGA per variant and schema sensitivity."""


class MultiWOZ(Scoring, verb="evaluate multiwoz", target="jaxaug.metrics.multiwoz:run"):
    """MultiWOZ: JGA per turn over all domains; any annotated spelling is correct.

    Attributes:
        normalize: first normalize slot names, venues, foods, times, and types of both
            sides as MultiWOZ_Evaluation does
    """

    normalize: bool = False


class Report(args.Settings, verb="report", target="jaxaug.metrics.report_verb:run"):
    """Compare finished runs.

    Attributes:
        runs: model folders
        html: page to write: tables, intervals, plots, and the training of each run
        csv: CSV file to write; differences go to NAME.differences.csv
        png: PNG file to write
        power: which differences the data can show, and the seeds and dialogues that
            smaller ones need
        resamples: bootstrap resamples for the intervals
    """

    runs: Annotated[args.Words, args.Arg("RUN")]
    html: str | None = None
    csv: str | None = None
    png: str | None = None
    power: bool = False
    resamples: Annotated[int, args.Range(100, args.MANY)] = 10_000


add_evaluate = args.adds(Evaluate, SGD, SGDX, MultiWOZ, metavar="BENCHMARK")
add_report = args.adds(Report)
