"""Runs `jaxaug sensitivity` and `jaxaug.sensitivity`."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Annotated, Any

from jaxaug_base.files import is_same

from jaxaug.core import typed
from jaxaug.core.arguments import Split
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_writable, shown, write_text
from jaxaug.core.progress import progress
from jaxaug.core.ranges import Range
from jaxaug.core.suggestion import suggestion
from jaxaug.data import folders, sgd
from jaxaug.data.schema import Schema
from jaxaug.metrics.evaluate import write_json
from jaxaug.models.endpoint import asking, server
from jaxaug.paraphrase import endpoint_run
from jaxaug.paraphrase.endpoint_grid import Options, Setting
from jaxaug.tools import (
    better,
    cases,
    convert,
    document_of,
    measure,
    read_document,
    report,
    suites,
)
from jaxaug.tools.arguments import AXES, REPEATS, WORDINGS, Sensitivity, TaskOptions
from jaxaug.tools.better import Better, Write, Writer
from jaxaug.tools.cases import CONTROL, ORIGINAL, Case, Source, Wordings
from jaxaug.tools.measure import Measured
from jaxaug.tools.models import (
    ChatModel,
    Model,
    Reply,
    TrackerModel,
    fields_of,
    with_shots,
)

SPLIT: Split = "test"
"""Default split of a data folder."""
FAILED = 3
"""Exit status if a model is more sensitive than `--fail_above` allows."""


@dataclass(frozen=True, slots=True)
class Task:
    """Cases to ask a model about.

    Attributes:
        sources: the tools and their cases.
        wordings: the cases under each wording, and under the original again as a
            control, without solved cases in their prompts.
        shots: maps the name of a wording to the solved cases in its prompts.
        axes: the cases under further changes of their tools.
        left_out: number of turns of the file that are no cases, by reason.
    """

    sources: Sequence[Source]
    wordings: Wordings
    shots: dict[str, Sequence[Case]]
    axes: Wordings = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def every(self) -> Wordings:
        """The cases under each wording and each axis."""
        return {**self.wordings, **self.axes}

    def requests(self, repeats: int) -> Iterator[tuple[str, list[Case]]]:
        """Yields each wording and each axis with its cases, `repeats` times.

        Each time the cases have another sample. The order of the wordings alternates,
        so that a server that changes over time favors none.
        """
        every = self.every
        for number in range(repeats):
            for name in [*every][:: -1 if number % 2 else 1]:
                cases = with_shots(every[name], self.shots.get(name, ()))
                yield name, samples(cases, f"{name} {number}")


def of_file(
    path: PathLike,
    schema: PathLike | None,
    answers: PathLike | None,
    options: TaskOptions,
) -> Task:
    """Returns the task of a file of cases; see `jaxaug.tools.cases.read`.

    Raises:
        UserError: a file is missing or wrong, or too short for the examples.
    """
    tools = read_document(schema) if schema else None
    if tools is not None:
        cases.check_finite(tools.document, f"--schema {schema}")
    most = options.limit and options.shots + options.limit
    found = cases.read(path, tools, answers, limit=most)
    flat = [(source.found, case) for source in found for case in source.cases]
    shown, rest = flat[: options.shots], flat[options.shots :]
    if not rest:
        raise UserError(
            f"--shots {options.shots}: {path} has {len(flat):,} cases, and none is "
            "left to be scored. Give a smaller number."
        )
    rest = rest[: options.limit]
    kept = {id(one): one for one, _ in rest}
    sources = [
        Source(one, [case for its, case in rest if its is one]) for one in kept.values()
    ]
    if not options.files:
        number = WORDINGS if options.wordings is None else options.wordings
        asked = cases.of_sources(sources, number, options.seed)
    elif tools is None:
        raise UserError("--wordings_from: cases of BFCL have tools of their own.")
    else:
        asked = cases.of_files(sources[0], options.files)
    shots: dict[str, Sequence[Case]] = {
        name: [case for _, case in shown] for name in asked
    }
    left_out = sum((Counter(one.left_out) for one in found), Counter[str]())
    return Task(sources, asked, shots, left_out=left_out)


def of_suite(name: str, options: TaskOptions, axes: Sequence[str] = ()) -> Task:
    """Returns the task of a suite under axes; see `suites.SUITES` and `AXES`.

    Raises:
        UserError: the tools of the suite cannot be fetched, or the options reword them.
    """
    if options.files or options.wordings is not None or options.shots:
        raise UserError(
            f"--suite {name}: has its own wordings and shows no solved cases. Leave "
            "--wordings, --wordings_from, and --shots out."
        )
    for axis in axes:
        if axis not in AXES:
            raise UserError(f"axis {axis!r} is unknown; {suggestion(axis, AXES)}")
    sources, wordings, changed = suites.read_suite(name, options.limit, axes)
    return Task(sources, wordings, {}, changed)


def of_data(data_dir: PathLike | None, split: str, options: TaskOptions) -> Task:
    """Returns the task of the annotated dialogues of a data folder.

    The wordings are the variants of SGD-X, or come from the grammar if their number is
    given.

    Raises:
        UserError: data are missing or wrong, or the folder has no variants.
    """
    if options.files:
        raise UserError("--wordings_from: is for a file of cases. Give --in, too.")
    folder = folders.resolve_data_dir(data_dir)
    source = cases.read_dialogues(folder, split, None, options.limit)
    _, names = folders.evaluated_variants(folder, split)
    asked: Wordings
    if options.wordings is not None:
        asked = cases.of_sources([source], options.wordings, options.seed)
    elif names:
        read = partial(cases.read_dialogues, folder, split, limit=options.limit)
        others = {name: read(name).cases for name in names}
        asked = {ORIGINAL: source.cases, CONTROL: source.cases, **others}
    else:
        raise UserError(
            f"{folder}: has no variants of {split}. Give --wordings N for "
            "rewordings by the grammar."
        )
    shots: dict[str, Sequence[Case]] = {}
    for name in asked if options.shots else ():
        is_variant = options.wordings is None and name != ORIGINAL
        known = cases.read_dialogues(
            folder, "train", name if is_variant else None
        ).cases
        filled = [one for one in known if one.expected[0].accepted]
        draw = random.Random(options.seed)
        shots[name] = draw.sample(filled, min(options.shots, len(filled)))
    return Task([source], asked, shots)


def samples(cases: Sequence[Case], name: str) -> list[Case]:
    """Returns cases with the name of their sample."""
    return [replace(case, sample=name) for case in cases]


def ask(
    task: Task,
    model: Model,
    repeats: int = REPEATS,
    find_better: bool = False,
    write: Write | None = None,
) -> tuple[Measured, Better | None]:
    """Asks a model about all cases under all wordings.

    Args:
        task: the cases under each wording.
        model: the model to ask. A tracker is asked once, since its answers are always
            the same.
        repeats: number of requests about each case under each wording.
        find_better: whether to look for better descriptions.
        write: proposes descriptions; see `better.find_better`.

    Raises:
        UserError: the model cannot be asked.
    """
    is_steady = isinstance(model, TrackerModel)
    asked = list(task.requests(1 if is_steady else repeats))
    if is_steady:
        asked = [(name, cases) for name, cases in asked if name != CONTROL]
    replies: dict[str, list[list[Reply]]] = {name: [] for name in task.every}
    total = sum(len(cases) for _, cases in asked)
    with progress(desc="sensitivity", total=total, unit="request") as bar:
        answers = iter(model([c for _, cases in asked for c in cases], bar.update))
        for name, cases in asked:
            replies[name].append([next(answers) for _ in cases])
    if is_steady:
        replies[CONTROL] = replies[ORIGINAL]
        replies = {name: found * repeats for name, found in replies.items()}
    found = measure.measure(task.wordings, replies, task.axes)
    if not find_better:
        return found, None
    shown = task.shots.get(ORIGINAL, ())

    def again(cases: Sequence[Case], name: str) -> list[list[Reply]]:
        ready, often = with_shots(cases, shown), 1 if is_steady else repeats
        rounds = [samples(ready, f"{name} {number}") for number in range(often)]
        return [model(one, lambda: None) for one in rounds]

    only = task.sources[0]
    return found, better.find_better(only, task.wordings, replies, again, write)


@typed.checked
def sensitivity(
    cases: typed.Path,
    schema: typed.Path | None = None,
    model: typed.Text = "",
    endpoint: typed.Text = "",
    *,
    wordings: Annotated[int, Range(0, 1000)] = WORDINGS,
    repeats: typed.Count = REPEATS,
    shots: Annotated[int, Range(0, 1000)] = 0,
    seed: typed.Seed = 0,
) -> dict[str, Any]:
    """Measures whether the tool calls of a chat model depend on descriptions.

    Args:
        cases: JSON lines with messages and calls, or questions of BFCL.
        schema: tools of the cases, in any format of `jaxaug schema import`; None for
            files of BFCL, which contain the tools.
        model: `openai:NAME`; NAME is the model's name at the server.
        endpoint: address of a server with the chat-completions interface.
        wordings: number of rewordings by the grammar.
        repeats: number of requests about each case under each wording.
        shots: number of cases from the start that are shown as solved and not scored.
        seed: seed of the rewordings and of the server's sampling.

    Returns:
        The report of `jaxaug sensitivity --json`: the result, the coverage, the
        accuracy of each wording, and the results of each description.

    Raises:
        UserError: a file or an argument is wrong, or the server cannot be asked.
    """
    setting = Setting.of({"model": model, "endpoint": endpoint, "num": 1}, "model")
    options = TaskOptions(wordings=wordings, repeats=repeats, shots=shots, seed=seed)
    task = of_file(cases, schema, None, options)
    asked = ChatModel(setting, seed)
    found, _ = ask(task, asked, repeats)
    about = _about(model, asked, options)
    return report.as_json(found, None, task.wordings, about)


def run(arguments: Sensitivity) -> int:
    """Runs the verb; see `jaxaug sensitivity --help`.

    Raises:
        UserError: an argument or a file is missing or wrong, or the model cannot be
            asked.
    """
    _check(arguments)
    setting = _setting(arguments)
    options = arguments.as_base(TaskOptions)
    if arguments.suite:
        task = of_suite(arguments.suite, options, arguments.axis)
    elif arguments.input:
        task = of_file(arguments.input, arguments.schema, arguments.answers, options)
    else:
        task = of_data(arguments.data_dir, arguments.split or SPLIT, options)
    if arguments.out and len(task.sources) > 1:
        raise UserError(
            "--out: these cases have several lists of tools, and only one can be "
            "written. Leave it out."
        )
    name, model = _model(arguments, setting)
    left_out: str = ", ".join(f"{n:,} {why}" for why, n in task.left_out.items())
    write = _writer(arguments, setting) if arguments.out else None
    repeats = options.repeats or REPEATS
    often = "asked once" if arguments.run else f"{repeats} repeats"
    counts = (
        (f"suite {arguments.suite}: " if arguments.suite else "")
        + f"{len(task.wordings[ORIGINAL]):,} cases, {len(task.wordings) - 1} wordings "
        f"and a control, {often}"
        + "".join(f", axis {name}" for name in task.axes)
        + (f", turns left out: {left_out}" if left_out else "")
    )
    if arguments.dry_run and isinstance(model, ChatModel):
        flat = [case for _, found in task.requests(repeats) for case in found]
        print(f"a dry run: nothing was asked or written; {counts}")
        print("\n".join(model.plan(flat)))
        if write:
            most = better.most_requests(task.sources[0].cases, repeats)
            print(f"  --out: at most {most:,} more requests")
        return 0
    found, advice = ask(task, model, repeats, bool(arguments.out), write)
    about = {
        "suite": arguments.suite,
        "left_out": dict(task.left_out),
        **_about(name, model, options),
    }
    how = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {shown(value)}"
        for name, value in sorted(about["parameters"].items(), reverse=True)
    )
    how = how or "always the same answers"
    title = f"{counts}, {name}, {how}"
    print(report.text(found, advice, title, arguments.rows))
    servers = [model.setting.server] if isinstance(model, ChatModel) else []
    servers += [write.server] if write and write.server not in servers else []
    if servers:
        print("", *map(asking.spent, servers), sep="\n")
    allowed = None if arguments.fail_above is None else arguments.fail_above / 100
    told = report.failure(found, allowed)
    if arguments.json:
        write_json(arguments.json, report.as_json(found, advice, task.wordings, about))
    if arguments.html:
        write_text(arguments.html, report.html_page(found, advice, title))
    if arguments.junit:
        write_text(arguments.junit, report.junit(found, title, allowed))
    out = arguments.out if advice is not None and advice.is_gain else None
    if out and advice is not None:
        before, after = _documents(arguments, task.sources[0], advice.schema)
        write_text(out, after)
        old = arguments.schema or "schema.json"
        print(f"\n{better.diff(before, after, (old, out))}\n")
    for path in filter(None, (arguments.json, arguments.html, arguments.junit, out)):
        print(f"written: {path}")
    if told:
        print(told)
    return FAILED if told else 0


def _documents(
    arguments: Sensitivity, source: Source, schema: Schema
) -> tuple[str, str]:
    """Returns the tools with the given and with better descriptions, as for `--out`."""
    own, imported = source.found.schema, source.found
    if not arguments.input:
        data_dir = folders.resolve_data_dir(arguments.data_dir)
        own = sgd.read_schema_of(data_dir, arguments.split or SPLIT)
        schema = cases.with_intents(own, schema)
    made = [document_of(one, imported.format, imported)[0] for one in (own, schema)]
    before, after = (convert.written(one, arguments.out or "") for one in made)
    return before, after


def _about(
    name: str, model: ChatModel | TrackerModel, options: TaskOptions
) -> dict[str, Any]:
    """Returns the settings of a run for its report."""
    chat = model.parameters if isinstance(model, ChatModel) else {}
    return {
        "model": name,
        "temperature": chat.get("temperature"),
        "parameters": chat,
        "repeats": options.repeats or REPEATS if chat else 1,
        "shots": options.shots,
        "seed": options.seed,
    }


def _check(arguments: Sensitivity) -> None:
    """Refuses arguments that do not fit together, before anything is read."""
    for name in ("json", "html", "junit", "out"):
        if path := getattr(arguments, name):
            check_writable(path, f"--{name}")
            for other in ("schema", "input"):
                given = getattr(arguments, other)
                if given and is_same(path, given):
                    raise UserError(
                        f"--{name} {path}: would replace an input. Name another."
                    )
    if arguments.files and arguments.wordings is not None:
        raise UserError("--wordings and --wordings_from: give only one of them.")

    def refuse(names: Sequence[str], why: str) -> None:
        for name in arguments.changed(names):
            raise UserError(f"--{'in' if name == 'input' else name}: {why}")

    if arguments.suite:
        cases_of = ("input", "schema", "answers", "data_dir")
        refuse((*cases_of, "split"), "--suite brings its cases. Leave it out.")
    else:
        refuse(("axis",), "changes the tools of a suite. Add --suite.")
    if arguments.input is None:
        refuse(("schema", "answers"), "needs a file of cases. Add --in.")
    else:
        both = ("data_dir", "split")
        refuse(both, "--in names cases already. Leave one of them out.")
    if not arguments.out:
        refuse(("writer",), "writes texts for --out. Add --out.")
    if bool(arguments.model) == bool(arguments.run):
        raise UserError("name a model: either --model openai:NAME, or --run RUN.")
    if arguments.run:
        own: tuple[str, ...] = (
            "dry_run",
            "option",
            "tools_in_prompt",
            "shots",
            "repeats",
        )
        own += () if arguments.writer else endpoint_run.OWN
        refuse(own, "is for a chat model, not for --run. Leave it out.")
        drawn = arguments.wordings or arguments.input and not arguments.files
        if not (drawn or arguments.writer):
            refuse(("seed",), "these wordings are not drawn. Leave it out.")


def _setting(arguments: Sensitivity) -> Setting | None:
    if arguments.run:
        return None
    for name in ("model", "writer"):
        given = getattr(arguments, name)
        if given is not None and not server.is_endpoint(given):
            raise UserError(
                f"--{name} {given}: write it {server.PREFIX}NAME, and give the address "
                "of its server with --endpoint."
            )
    block: dict[str, Any] = {"model": arguments.model, "num": 1}
    known = replace(arguments, option=_options(arguments, True))
    for name in (text.partition("=")[0] for text in known.option):
        if name in ("per_request", "json"):
            raise UserError(f"--option {name}: is for paraphrases. Leave it out.")
    return Setting.of(block | endpoint_run.server_of(known), "--option")


def _writer(arguments: Sensitivity, setting: Setting | None) -> Writer | None:
    """Returns the writer: the measured model, or the one of `--writer`."""
    if arguments.writer is None:
        return Writer(setting.server, arguments.seed) if setting else None
    found = _setting(replace(arguments, model=arguments.writer, run=None))
    assert found is not None
    return Writer(found.server, arguments.seed)


def _options(arguments: Sensitivity, are_known: bool) -> tuple[str, ...]:
    """Returns the options that the client knows, or those for the server alone."""
    names = {field.name for field in fields(Options)}
    return tuple(
        text
        for text in arguments.option
        if (text.partition("=")[0] in names) == are_known
    )


def _model(
    arguments: Sensitivity, setting: Setting | None
) -> tuple[str, ChatModel | TrackerModel]:
    if setting is not None:
        assert arguments.model
        more = fields_of(_options(arguments, False), [f.name for f in fields(Options)])
        return arguments.model, ChatModel(
            setting, arguments.seed, arguments.tools_in_prompt, more
        )
    assert arguments.run
    # A tracker imports JAX.
    from jaxaug.core import compiled
    from jaxaug.track.tracker import Tracker

    compiled.keep_programs()
    return arguments.run, TrackerModel(Tracker.load(arguments.run, Schema(())))
