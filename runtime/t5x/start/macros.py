"""Types and ranges of public macros, checked before anything slow is imported.

A macro with a reference, such as `@schedule.cyclic()`, is checked where it is used.
"""

import functools
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
from typing import Any

from absl import flags
from gin import config_parser

from t5x import checks
from t5x.errors import UserError
from t5x.start import gin_files

_Binding = config_parser.BindingStatement
# A step is an int32.
_MOST = 2**31 - 1
# The members of `losses.SpecialLossNormalizingFactor`, which needs JAX.
_FACTORS = "NUM_REAL_TARGET_TOKENS", "NUM_TOTAL_TARGET_TOKENS", "AVERAGE_PER_SEQUENCE"
Rule = Callable[[str, Any], Any]


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{name} = {value!r:.80}: give a text, such as 'd3st_sgd'.")


def _texts(name: str, value: Any) -> None:
    """Accepts a text or several."""
    for one in value if isinstance(value, list | tuple) and value else [value]:
        _text(name, one)


def _list(name: str, value: Any) -> None:
    if not isinstance(value, list | tuple) or not value:
        raise UserError(f"{name} = {value!r:.80}: give a list of texts.")
    _texts(name, value)


def _one_of(*names: str) -> Rule:
    def rule(name: str, value: Any) -> None:
        if not isinstance(value, str) or value.lower() not in map(str.lower, names):
            listed = ", ".join(map(repr, names))
            raise UserError(f"{name} = {value!r:.80}: give one of {listed}.")

    return rule


def _share(name: str, value: Any) -> None:
    if value != 1 or isinstance(value, bool):
        checks.number(name, value, below=1.0)


def _curriculum(name: str, value: Any) -> None:
    """Accepts steps, None for the steps of the run, or 'as written'."""
    if value not in (None, "as written"):
        checks.whole_number(name, value, 1, "; or None or 'as written'", _MOST)


def _normalizer(name: str, value: Any) -> None:
    """Accepts None, a number above 0, or the name of a factor of the batch."""
    if isinstance(value, str):
        _one_of(*_FACTORS)(name, value)
    elif value is not None:
        checks.number(name, value, least=sys.float_info.min)


def _reference(name: str, value: Any) -> None:
    """Refuses any value: references are not checked here."""
    raise UserError(
        f"{name} = {value!r:.80}: give a reference, such as @NAME(), or %OTHER_MACRO."
    )


def _actions(name: str, value: Any) -> None:
    """Accepts mode -> actions, also for no mode."""
    known = isinstance(value, dict) and all(
        isinstance(mode, str) and isinstance(found, list | tuple)
        for mode, found in value.items()
    )
    if not known:
        raise UserError(
            f"{name} = {value!r:.80}: give the actions of each mode, such as "
            "{'INFER_EVAL': [@trainer.EarlyStoppingAction()]}."
        )


def _flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise UserError(f"{name} = {value!r:.80}: give True or False.")


def _steps(name: str, value: Any) -> None:
    """Accepts one number of steps, or one for each stage."""
    for one in value if isinstance(value, list | tuple) and value else [value]:
        _positive(name, one)


def _or_none(rule: Rule) -> Rule:
    return lambda name, value: None if value is None else rule(name, value)


def _lengths(name: str, value: Any) -> None:
    fits = isinstance(value, dict) and value and all(isinstance(k, str) for k in value)
    if not fits:
        raise UserError(
            f"{name} = {value!r:.80}: give the length of each feature, such as "
            "{'inputs': 512, 'targets': 64}."
        )
    for feature, length in value.items():
        if length != "auto":
            _positive(f"{name}[{feature!r}]", length)


_count = functools.partial(checks.whole_number, least=0, most=_MOST)
_positive = functools.partial(checks.whole_number, least=1, most=_MOST)
_number = functools.partial(checks.number, least=0.0, below=1e6)
_rate = functools.partial(checks.number, least=0.0, below=1.0)
_RULES: dict[Rule, str] = {
    _positive: "BATCH_SIZE DECAY_STEPS EVAL_BATCH_SIZE FINETUNE_BATCH_SIZE LEVELS RANK "
    "WORDINGS WORST_CANDIDATES WORST_PERIOD",
    _steps: "STEPS_OF_STAGES STEPS_PER_LEVEL_ONCE STEPS_PER_LEVEL_TWICE",
    _count: "EVAL_PERIOD FINETUNE_STEPS INITIAL_STEP MAX_FINETUNING_STEPS TRAIN_STEPS "
    "WARMUP_STEPS",
    _or_none(_positive): "NUM_PARTITIONS",
    _or_none(_count): "EVALUATOR_NUM_EXAMPLES EVAL_STEPS RANDOM_SEED "
    "JSON_WRITE_N_RESULTS TRAIN_STEPS_RELATIVE",
    _number: "ADAPTER_LEARNING_RATE ALPHA CONSISTENCY_WEIGHT LEARNING_RATE Z_LOSS",
    _rate: "ADAPTER_DROPOUT DROPOUT_RATE LABEL_SMOOTHING",
    _share: "ORIGINAL_FRACTION WORST_RATE",
    _curriculum: "CURRICULUM_STEPS",
    _normalizer: "LOSS_NORMALIZING_FACTOR",
    _one_of("none", "minimal", "full"): "REMAT_POLICY",
    _one_of("symmetric", "mean"): "CONSISTENCY_TERM",
    _or_none(_one_of("online", "offline", "disabled")): "WANDB_MODE",
    _flag: "EVALUATOR_USE_MEMORY_CACHE SHUFFLE_TRAIN_EXAMPLES USE_CACHED_TASKS "
    "USE_HARDWARE_RNG",
    _text: "BASE DEV_METRIC DEV_TASK EVAL_MIXTURE EVAL_OUTPUT_DIR EVAL_SPLIT "
    "EVAL_TASK INFER_OUTPUT_DIR MIXTURE_OR_TASK_NAME MODEL_DIR TASK "
    "TF_EXAMPLE_FILE_TYPE TOKENIZER VOCABULARY_FILE WANDB_PROJECT",
    _texts: "CHECKPOINT_PATH TF_EXAMPLE_FILE_PATHS",
    _or_none(_texts): "INITIAL_CHECKPOINT_PATH TARGETS",
    _list: "CDA_LEVELS LEVEL_TASKS OFFICIAL_LEVELS PCC_LEVELS RT_LEVELS",
    _or_none(_text): "MIXTURE_OR_TASK_MODULE",
    _or_none(_lengths): "TASK_FEATURE_LENGTHS",
    _lengths: "FEATURE_LENGTHS",
    _actions: "FINETUNE_ACTIONS",
    _reference: "ADAPTED_MODEL ADAPTER CONSISTENT_OF CURRICULUM FITTED_SCHEDULE MODEL "
    "SCHEDULE VOCABULARY WORST_OF",
    _or_none(_reference): "OPTIMIZER RESTORE",
}
_MACROS = {name: rule for rule, names in _RULES.items() for name in names.split()}
# Parameters that gin files bind directly, in any function.
_PARAMETERS: dict[str, Rule] = {"random_seed": _or_none(_count)}
_PACKAGE_PARENT = str(pathlib.Path(__file__).resolve().parents[2])


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of gin files and bindings."""
    flags.DEFINE_multi_string(
        "gin_file", None, "gin file; may be repeated, later files win.",
        flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_multi_string(
        "gin_bindings", [],
        "One gin binding, 'NAME = VALUE'; --gin.NAME=VALUE for short.",
        flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_list(
        "gin_search_paths", ["."],
        "Folders in which gin files and includes are found, before those that "
        "installed packages offer.",
        flag_values=flag_values,
    )  # fmt: skip


def folders(given: Sequence[str]) -> list[str]:
    """Returns all folders in which gin files are found, those `given` first."""
    return [*given, _PACKAGE_PARENT, *offered()]


def check(argv: Sequence[str]) -> None:
    """Checks the public macros of a command line; ends the process if one is wrong.

    The files are parsed without what they import. Mistakes of other kinds are left to
    the program, which parses everything again.
    """
    given = flags.FlagValues()
    define_flags(given)
    try:
        given(gin_files.rewrite_gin_args(argv), known_only=True)
        found = list(_statements(given))
    except (flags.Error, UserError, OSError, *gin_files.NO_GIN):
        return
    try:
        check_bindings(found)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


def _statements(given: flags.FlagValues) -> Iterator[Any]:
    """Yields the bindings of the files and flags, in order."""
    search = ["", *folders(given.gin_search_paths)]
    for file in given.gin_file or []:
        yield from _of_file(file, search)
    for binding in given.gin_bindings:
        yield from config_parser.ConfigParser(binding, gin_files.Delegate())


def _of_file(
    file: str, search: Sequence[str], within: Sequence[str] = ()
) -> Iterator[Any]:
    """Yields the bindings of a file and of what it includes, in order."""
    paths = (os.path.join(folder, file) for folder in search)
    path = next(filter(os.path.isfile, paths), file)
    if path in within:
        raise UserError(f"{path} includes itself.")
    with open(path, encoding="utf-8-sig") as text:
        for statement in config_parser.ConfigParser(text, gin_files.Delegate()):
            if isinstance(statement, config_parser.IncludeStatement):
                yield from _of_file(statement.filename, search, (*within, path))
            elif isinstance(statement, _Binding):
                yield statement


def check_bindings(bindings: Iterable[Any]) -> None:
    """Checks public macros and parameters; of several bindings, the last one counts."""
    values: dict[str, Any] = {}
    rules: dict[str, Rule] = {}
    for scope, selector, parameter, value, _ in bindings:
        name = "/".join(filter(None, (scope, selector)))
        if parameter:
            name = f"{name.rpartition('.')[2]}.{parameter}"
        values[name] = value
        rule = _PARAMETERS.get(parameter) if parameter else _MACROS.get(name)
        if rule:
            rules[name] = rule
    for name, rule in rules.items():
        value = gin_files.resolved(values[name], values)
        if not _has_reference(value):
            try:
                rule(name, value)
            except UserError as error:
                raise UserError(f"gin configuration: {error}") from None


def _has_reference(value: Any) -> bool:
    """Returns whether a value is a reference or contains one."""
    if isinstance(value, list | tuple | dict):
        parts = value.values() if isinstance(value, dict) else value
        return any(map(_has_reference, parts))
    return isinstance(value, gin_files.Macro | gin_files.Reference)


GROUP = "t5x.gin_search_paths"


def offered() -> list[str]:
    """Returns the folders of gin files that installed packages offer, sorted by name.

    A distribution registers, under the entry points `t5x.gin_search_paths`, a function
    without arguments that returns a folder. A folder whose entry point fails is skipped
    with a warning: another package is at fault.
    """
    found = []
    for entry in sorted(metadata.entry_points(group=GROUP)):
        try:
            found.append(str(entry.load()()))
        except (ImportError, AttributeError) as error:
            from t5x.logs.progress import announce

            announce(
                f"warning: the gin files of {entry.name} are not found: {entry.value} "
                f"({GROUP}) fails with {error!r}. Install that package again."
            )
    return list(dict.fromkeys(found))
