"""Types and ranges of public macros, checked before the data and the model are loaded.

A macro that is a reference, such as `@schedule.cyclic()`, is checked where it is used.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import gin

from t5x import checks
from t5x.errors import UserError

_MACRO = "gin.macro"
_REFERENCES = gin.config.ConfigurableReference, gin.config._UnknownConfigurableReference
# A step is an int32.
_MOST = 2**31 - 1
Rule = Callable[[str, Any], Any]


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{name} = {value!r:.80}: give a text, such as 'd3st_sgd'.")


def _texts(name: str, value: Any) -> None:
    """Accepts a text or several."""
    for one in value if isinstance(value, list | tuple) and value else [value]:
        _text(name, one)


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
    _positive: "BATCH_SIZE EVAL_BATCH_SIZE FINETUNE_BATCH_SIZE LEVELS RANK WORDINGS "
    "WORST_CANDIDATES",
    _steps: "STEPS_OF_STAGES STEPS_PER_LEVEL_ONCE STEPS_PER_LEVEL_TWICE",
    _count: "EVAL_PERIOD FINETUNE_STEPS INITIAL_STEP MAX_FINETUNING_STEPS TRAIN_STEPS "
    "WARMUP_STEPS",
    _or_none(_positive): "NUM_PARTITIONS",
    _or_none(_count): "EVALUATOR_NUM_EXAMPLES EVAL_STEPS RANDOM_SEED "
    "TRAIN_STEPS_RELATIVE",
    _number: "ADAPTER_LEARNING_RATE ALPHA CONSISTENCY_WEIGHT LEARNING_RATE",
    _rate: "ADAPTER_DROPOUT DROPOUT_RATE LABEL_SMOOTHING",
    _flag: "EVALUATOR_USE_MEMORY_CACHE SHUFFLE_TRAIN_EXAMPLES USE_CACHED_TASKS "
    "USE_HARDWARE_RNG",
    _text: "BASE DEV_METRIC DEV_TASK EVAL_MIXTURE EVAL_SPLIT EVAL_TASK "
    "MIXTURE_OR_TASK_NAME MODEL_DIR TASK TOKENIZER VOCABULARY_FILE",
    _texts: "CHECKPOINT_PATH INITIAL_CHECKPOINT_PATH",
    _or_none(_text): "MIXTURE_OR_TASK_MODULE",
    _or_none(_lengths): "TASK_FEATURE_LENGTHS",
}
_MACROS = {name: rule for rule, names in _RULES.items() for name in names.split()}
# Parameters that gin files bind directly, in any function.
_PARAMETERS: dict[str, Rule] = {"random_seed": _or_none(_count)}


def check() -> None:
    """Checks the values of all public macros of the current configuration.

    Raises:
        UserError: a value has another type, or is out of range.
    """
    for name, rule, value in _values():
        if isinstance(value, _REFERENCES) or value is gin.REQUIRED:
            continue
        try:
            rule(name, value)
        except UserError as error:
            raise UserError(f"gin configuration: {error}") from None


def _values() -> Iterator[tuple[str, Rule, Any]]:
    for (scope, selector), values in gin.config._CONFIG.items():
        if selector == _MACRO and scope in _MACROS:
            yield scope, _MACROS[scope], values.get("value")
        for name, rule in _PARAMETERS.items():
            if name in values:
                yield f"{selector.rpartition('.')[2]}.{name}", rule, values[name]
