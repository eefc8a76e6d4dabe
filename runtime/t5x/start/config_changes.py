"""Reports settings that changed since the `config.gin` of a resumed run."""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import jax
from etils import epath
from gin import config_parser
from jaxaug_base.files import read_bytes, read_json

from t5x.logs.progress import announce
from t5x.start import gin_config, gin_files

_CONFIG = "config.gin"
_NOT_SET = "not set"
_LONGEST = 300
# Parameters that change length, frequency, location, or reporting, but not what a step
# computes.
_HARMLESS = re.compile(
    r"(train_eval|infer_eval)/.*"
    r"|([\w.]+\.)?train\.(total_steps|relative_steps|eval_steps|eval_period"
    r"|stats_period|gc_period|run_eval_before_training|concurrent_metrics|model_dir"
    r"|summarize_config_fn|inference_evaluator_cls|train_eval_dataset_cfg"
    r"|infer_eval_dataset_cfg|verify_matching_vocabs_fn)"
    r"|([\w.]+\.)?SaveCheckpointConfig\.(period|keep|checkpoint_steps"
    r"|keep_dataset_checkpoints)"
    r"|([\w./]+[./])?(\w*[Ee]valuator|\w*Logger|get_gin_config_str)\.\w+"
)


def parse(text: str) -> dict[str, Any]:
    """Returns binding name -> value, with references and macros unresolved."""
    bindings = {}
    for statement in config_parser.ConfigParser(text, gin_files.Delegate()):
        if isinstance(statement, config_parser.BindingStatement):
            scope = f"{statement.scope}/" if statement.scope else ""
            argument = f".{statement.arg_name}" if statement.arg_name else ""
            bindings[f"{scope}{statement.selector}{argument}"] = statement.value
    return bindings


def _macros(value: Any) -> Iterator[str]:
    if isinstance(value, gin_files.Macro):
        yield value.name
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _macros(pair)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _macros(item)


@dataclasses.dataclass(frozen=True)
class Change:
    """One setting that differs, as gin writes it; 'not set' if missing.

    A harmless one concerns only lengths, periods, evaluation, or logging.
    """

    name: str
    before: str
    after: str
    harmless: bool

    def __str__(self) -> str:
        return f"  {self.name}: {self.before} -> {self.after}"


def changes(before: str, after: str) -> list[Change]:
    """Returns the settings in which two configurations (texts) differ, by name.

    A changed macro is listed once, not for each setting that refers to it.
    """
    old, new = parse(before), parse(after)

    def shown(name: str, bindings: dict[str, Any]) -> str:
        if name not in bindings:
            return _NOT_SET
        text = repr(gin_files.resolved(bindings[name], bindings))
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

    def is_harmless(name: str, above: frozenset[str] = frozenset()) -> bool:
        if "." in name:
            return bool(_HARMLESS.fullmatch(name))
        users = {
            user
            for bindings in (old, new)
            for user, value in bindings.items()
            if name in _macros(value)
        }
        return all(is_harmless(user, above | {name}) for user in users - above)

    found = []
    for name in sorted({*old, *new}):
        same_text = name in old and name in new and old[name] == new[name]
        if same_text or shown(name, old) == shown(name, new):
            continue
        found.append(
            Change(name, shown(name, old), shown(name, new), is_harmless(name))
        )
    return found


def report(model_dir: str, step: int) -> None:
    """Reports how the configuration of a resumed run differs from its `config.gin`.

    Call it before that file is rewritten.
    """
    path = epath.Path(model_dir) / _CONFIG
    current = gin_config.get_gin_config_str()
    if jax.process_index() != 0 or not current.strip() or not path.exists():
        return
    try:
        found = changes(read_bytes(path).decode(), current)
    except (SyntaxError, UnicodeDecodeError) as error:
        announce(f"warning: {path} is damaged ({error}): settings are not compared.")
        return
    digest = path.parent / gin_config.DIGEST_FILE
    if digest.exists() and _is_changed(path, digest):
        announce(
            f"warning: {path} was changed after training wrote it. The run goes on "
            f"with the settings of this command, not with those of the file."
        )
    serious = [change for change in found if not change.harmless]
    if serious:
        _announce(
            f"warning: up to step {step:,} this run had other settings (in {path}). "
            "It goes on with these, old -> new; if that is not wanted, stop it and "
            "give the old ones:",
            serious,
        )
    if len(found) > len(serious):
        _announce(
            f"step {step:,}  new lengths, periods or reports, old -> new:",
            [change for change in found if change.harmless],
        )


def _is_changed(path: epath.Path, digest: epath.Path) -> bool:
    """Returns whether a configuration differs from the one that was written."""
    try:
        noted = read_json(digest)
    except (ValueError, OSError):
        return True
    written = noted.get("digest") if isinstance(noted, dict) else None
    return written != gin_config.config_digest(path.read_bytes())


def _announce(title: str, listed: list[Change]) -> None:
    announce("\n".join([title, *map(str, listed)]))
