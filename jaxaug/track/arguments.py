"""The arguments of verbs that use a trained tracker; importing this is cheap."""

import argparse
import sys
from typing import Any

from jaxaug.core import arguments


def add_robust(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `jaxaug.track.options.Robust`."""
    group = parser.add_argument_group("wordings and checks (docs/robustness.md)")
    group.add_argument(
        "--wordings",
        type=arguments.whole(64),
        default=0,
        metavar="N",
        help="predict under N further wordings of the schema and combine the answers",
    )
    group.add_argument(
        "--wordings_from",
        dest="source",
        default="grammar",
        metavar="DIR",
        help="variants folder with the wordings v1 to vN (default: the rewording "
        "grammar)",
    )
    group.add_argument(
        "--combine",
        choices=("vote", "likelihood"),
        default="vote",
        help="per slot the most frequent value, or the answer with the greatest sum of "
        "log-likelihoods (default: vote)",
    )
    group.add_argument(
        "--early",
        action="store_true",
        help="leave out further wordings where the first three agree",
    )
    group.add_argument(
        "--min_confidence",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="slots on which fewer wordings agree are uncertain (0 to 1, default: 0)",
    )
    group.add_argument(
        "--uncertain",
        choices=("mark", "drop"),
        default="mark",
        help="list uncertain slots, or empty them too (default: mark)",
    )
    group.add_argument(
        "--unsaid",
        choices=("keep", "mark", "drop"),
        default="keep",
        help="free values that occur in no turn: keep them, list them, or empty their "
        "slots too (default: keep)",
    )
    group.add_argument(
        "--familiar",
        nargs="?",
        const="auto",
        default="",
        metavar="DIR",
        help="reword the schema in words of the schemas that the run was trained on; "
        "DIR: data folder of the training (default: $JAXAUG_DATA_DIR, else MiniSGD)",
    )
    group.add_argument(
        "--constrained",
        action="store_true",
        help="restrict answers to the format: categorical slots have one of their "
        "options",
    )


def robust(parsed: argparse.Namespace) -> Any:
    """Returns the `Robust` of parsed arguments; prints the data folder of `--familiar`.

    Raises:
        UserError: an option is out of range (see `Robust`), or the data folder does not
          exist.
    """
    from jaxaug.data import folders
    from jaxaug.track.options import AUTO, Robust

    names = Robust.__dataclass_fields__
    found = Robust(**{name: getattr(parsed, name) for name in names})
    if found.familiar:
        named = None if found.familiar == AUTO else found.familiar
        folder = folders.resolve_data_dir(named)
        print(f"familiar: words of the training schemas in {folder}", file=sys.stderr)
    return found


def add_run(parser: argparse.ArgumentParser) -> None:
    """Adds the run of a tracker as the first positional argument."""
    parser.add_argument(
        "run", metavar="RUN", help="folder of a training run, or a checkpoint in it"
    )
    arguments.trained_run(parser)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Adds the engine of a tracker and the precision of its weights."""
    arguments.engine(parser)
    parser.add_argument(
        "--precision",
        choices=("float32", "float16", "int16", "int8"),
        default="float32",
        help="precision of the weights in CTranslate2 (default: float32)",
    )


def loaded(parsed: argparse.Namespace, schema: Any, batch_size: int | None) -> Any:
    """Returns the tracker of parsed arguments, with `add_engine` and `add_robust`.

    Raises:
        UserError: see `Tracker.load` and `EngineTracker.load`; or a precision without
            the engine.
    """
    from jaxaug.core.errors import UserError

    options = robust(parsed)
    if parsed.engine == "ctranslate2":
        from jaxaug.track.engine import EngineTracker

        given = parsed.run, schema, batch_size, options
        return EngineTracker.load(*given, precision=parsed.precision)
    if parsed.precision != "float32":
        raise UserError(
            f"--precision {parsed.precision}: JAX has trackers in float32 alone. Add "
            "--engine ctranslate2, or leave it out."
        )
    from jaxaug.core import compiled
    from jaxaug.track.tracker import Tracker

    compiled.keep_programs()
    return Tracker.load(parsed.run, schema, batch_size, options)


def add_schema(parser: argparse.ArgumentParser) -> None:
    """Adds `--schema`."""
    parser.add_argument(
        "--schema",
        help="schema.json with the services (default: those of the data folder)",
    )


def add_robustness(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `robustness`."""
    parser = arguments.verb(
        verbs,
        "robustness",
        "jaxaug.track.robustness:run",
        "score a trained tracker under the original wording and the variants of SGD-X, "
        "with further wordings and checks",
    )
    add_run(parser)
    arguments.data_dir(parser)
    _split(parser)
    parser.add_argument(
        "--out", required=True, help="folder for the report and the predictions"
    )
    add_robust(parser)


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `predict`."""
    parser = arguments.verb(
        verbs,
        "predict",
        "jaxaug.track.run:run",
        "predict the states of dialogues with a trained tracker; the same command "
        "resumes after a stop",
    )
    parser.add_argument(
        "--run", required=True, help="folder of a training run, or a checkpoint in it"
    )
    arguments.trained_run(parser)
    add_schema(parser)
    parser.add_argument(
        "--services",
        nargs="+",
        metavar="NAME",
        help="predict only these services (default: the services that the turn or the "
        "dialogue lists, else all)",
    )
    parser.add_argument(
        "--in",
        dest="input",
        default="-",
        help="dialogues in the layout of SGD (.json, .jsonl), or lines of USER: and "
        "SYSTEM: (default: standard input)",
    )
    parser.add_argument(
        "--out",
        help="JSON lines to write (.jsonl), or a folder for `jaxaug evaluate sgd` "
        "(default: print JSON lines)",
    )
    parser.add_argument(
        "--batch_size",
        type=arguments.whole(arguments.MANY),
        help="inputs decoded together (default: 8 on a CPU, else 32)",
    )
    add_engine(parser)
    add_robust(parser)


def add_advise(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `advise`."""
    parser = arguments.verb(
        verbs,
        "advise",
        "jaxaug.track.advise:run",
        "find descriptions of a schema that a trained tracker misreads, and better "
        "wordings; no training",
    )
    parser.add_argument(
        "--run", required=True, help="folder of a training run, or a checkpoint in it"
    )
    arguments.trained_run(parser)
    parser.add_argument(
        "--schema", required=True, help="schema.json with the descriptions"
    )
    parser.add_argument(
        "--in",
        dest="input",
        help="dialogues without annotation, as for `jaxaug predict` (default: no "
        "dialogues, advice by familiarity of words alone)",
    )
    parser.add_argument(
        "--data_dir",
        help="data folder of the training, for its words (default: $JAXAUG_DATA_DIR, "
        "else MiniSGD)",
    )
    parser.add_argument("--json", metavar="FILE", help="all advice as JSON")
    parser.add_argument("--html", metavar="FILE", help="page to write, self-contained")
    parser.add_argument(
        "--out", metavar="FILE", help="schema.json with the advised descriptions"
    )
    _numbers(
        parser,
        ("wordings", 16, 64, "wordings of the schema to predict under"),
        ("candidates", 7, 300, "compared rewordings of each description"),
        ("limit", 20, arguments.MANY, "rows of the printed table"),
    )


def add_attack(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `attack`."""
    parser = arguments.verb(
        verbs,
        "attack",
        "jaxaug.track.attack:run",
        "search faithful rewordings of slot descriptions under which a trained tracker "
        "fails",
    )
    parser.add_argument(
        "run", metavar="RUN", help="folder of a training run, or a checkpoint in it"
    )
    arguments.trained_run(parser)
    arguments.data_dir(parser)
    _split(parser)
    parser.add_argument(
        "--services",
        nargs="+",
        metavar="NAME",
        help="attack only these services (default: all services of at least two "
        "dialogues)",
    )
    _numbers(
        parser,
        ("dialogues", 100, arguments.MANY, "dialogues; half of them for the search"),
        ("candidates", 8, 300, "tried rewordings of each description"),
        ("beam", 1, 64, "wordings kept after each description; 1 is greedy"),
        ("random", 8, 64, "random rewordings to compare with"),
        ("examples", 5, arguments.MANY, "printed frames"),
    )
    parser.add_argument("--json", metavar="FILE", help="all results as JSON")
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="variants folder for the searched wordings, such as DATA/variants/worst",
    )


def _split(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--split",
        choices=("train", "dev", "test"),
        default="test",
        help="(default: test)",
    )


def _numbers(
    parser: argparse.ArgumentParser, *options: tuple[str, int, int, str]
) -> None:
    """Adds integer options (name, default, maximum, help), and `--seed`."""
    seed = "seed", 0, arguments.MAX_SEED, "seed of all random draws"
    for name, default, most, text in (*options, seed):
        parser.add_argument(
            f"--{name}",
            type=arguments.whole(most),
            default=default,
            metavar="N",
            help=f"{text} (default: {default})",
        )
