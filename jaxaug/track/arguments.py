"""Options of the verbs that use a trained tracker; this module imports quickly."""

import sys
from typing import Annotated, Any, Literal

from jaxaug.core import arguments as args
from jaxaug.track.options import AUTO, MOST, Robust

_RUN = "folder of a training run, or a checkpoint in it"
_Names = Annotated[args.Words, args.Arg(metavar="NAME")]
RunFolder = Annotated[str, args.Arg("RUN", help=_RUN)]


class Schema(args.Settings):
    """A verb that may read the services from a file.

    Attributes:
        schema: schema.json with the services (default: the services of the data folder)
    """

    schema: str | None = None


class Engines(args.Engine):
    """A verb that decodes with a tracker.

    Attributes:
        precision: precision of the weights in CTranslate2
    """

    precision: Literal["float32", "float16", "int16", "int8"] = "float32"


class Predict(
    args.TrainedRun, Schema, Engines, verb="predict", target="jaxaug.track.run:run"
):
    """Predict the states of dialogues with a trained tracker; the same command
    resumes after a stop.

    Attributes:
        services: predict only these services (default: the services that the turn or
            the dialogue lists, else all)
        input: dialogues in the layout of SGD (.json, .jsonl), or lines of USER: and
            SYSTEM: (default: standard input)
        out: JSON lines to write (.jsonl), or a folder for `jaxaug evaluate sgd`
            (default: print JSON lines)
        batch_size: inputs decoded together (default: 8 on a CPU, else 32)
    """

    run: Annotated[str, args.Arg(help=_RUN)]
    services: _Names = ()
    input: Annotated[str, args.Arg("--in")] = "-"
    out: str | None = None
    batch_size: Annotated[int, args.Range(1, 65_536)] | None = None
    robust: Robust


class Robustness(
    args.TrainedRun,
    args.DataDir,
    verb="robustness",
    target="jaxaug.track.robustness:run",
):
    """Score a trained tracker under the original wording and the variants of SGD-X,
    with further wordings and checks.

    Attributes:
        out: folder for the report and the predictions
    """

    run: RunFolder
    split: args.Split = "test"
    out: str
    robust: Robust


class AdviseOptions(args.Settings):
    """Options of the search for better descriptions.

    Attributes:
        wordings: wordings of the schema to predict under, with the given one
        candidates: compared rewordings of each description
        seed: seed of all random draws
    """

    wordings: Annotated[int, args.Range(2, MOST)] = 16
    candidates: Annotated[int, args.Range(1, 300)] = 7
    seed: args.Seed = 0


class Advise(
    AdviseOptions, args.TrainedRun, verb="advise", target="jaxaug.track.advise:run"
):
    """Find descriptions of a schema that a trained tracker misreads, and better
    wordings; no training.

    Attributes:
        schema: schema.json with the descriptions
        input: dialogues without annotation, as for `jaxaug predict` (default: no
            dialogues, advice by familiarity of words alone)
        data_dir: data folder of the training, for its words (default: $JAXAUG_DATA_DIR,
            else MiniSGD)
        json: all advice as JSON
        html: page to write, self-contained
        out: schema.json with the advised descriptions
        limit: rows of the printed table
    """

    run: Annotated[str, args.Arg(help=_RUN)]
    schema: str
    input: Annotated[str | None, args.Arg("--in")] = None
    data_dir: str | None = None
    json: args.File = None
    html: args.File = None
    out: args.File = None
    limit: args.Count = 20


class AttackOptions(args.Settings):
    """Options of the search for wordings under which a tracker fails.

    Attributes:
        candidates: tried rewordings of each description
        beam: wordings kept after each description; 1 is greedy
        random: random rewordings to compare with
        seed: seed of all random draws
    """

    candidates: Annotated[int, args.Range(1, 300)] = 8
    beam: Annotated[int, args.Range(1, MOST)] = 1
    random: Annotated[int, args.Range(1, MOST)] = 8
    seed: args.Seed = 0


class Attack(
    AttackOptions,
    args.TrainedRun,
    args.DataDir,
    verb="attack",
    target="jaxaug.track.attack:run",
):
    """Search faithful rewordings of slot descriptions under which a trained tracker
    fails.

    Attributes:
        services: attack only these services (default: all services of at least two
            dialogues)
        dialogues: dialogues; half of them for the search
        examples: printed frames
        json: all results as JSON
        out: variants folder for the searched wordings, such as DATA/variants/worst
    """

    run: RunFolder
    split: args.Split = "test"
    services: _Names = ()
    dialogues: Annotated[int, args.Range(2, args.MANY)] = 100
    examples: Annotated[int, args.Range(0, args.MANY)] = 5
    json: args.File = None
    out: Annotated[str | None, args.Arg(metavar="DIR")] = None


add, add_robustness = args.adds(Predict), args.adds(Robustness)
add_advise, add_attack = args.adds(Advise), args.adds(Attack)


def robust(options: Robust) -> Robust:
    """Returns the options; prints the data folder of `--familiar`.

    Raises:
        UserError: the data folder does not exist.
    """
    from jaxaug.data import folders

    if options.familiar:
        named = None if options.familiar == AUTO else options.familiar
        folder = folders.resolve_data_dir(named)
        print(f"familiar: words of the training schemas in {folder}", file=sys.stderr)
    return options


def loaded(given: Any, schema: Any, batch_size: int | None = None) -> Any:
    """Returns the tracker of `Predict` or `Serve`.

    Raises:
        UserError: see `Tracker.load` and `EngineTracker.load`; or a precision without
            the engine.
    """
    from jaxaug.core.errors import UserError

    options = robust(given.robust)
    if given.engine == "ctranslate2":
        from jaxaug.track.engine import EngineTracker

        named = given.run, schema, batch_size, options
        return EngineTracker.load(*named, precision=given.precision)
    if given.precision != "float32":
        raise UserError(
            f"--precision {given.precision}: JAX has trackers in float32 alone. Add "
            "--engine ctranslate2, or leave it out."
        )
    from jaxaug.core import compiled
    from jaxaug.track.tracker import Tracker

    compiled.keep_programs()
    return Tracker.load(given.run, schema, batch_size, options)
