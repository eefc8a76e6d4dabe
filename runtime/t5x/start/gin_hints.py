"""Explains mistakes in gin files: the unknown name, and the nearest known one."""

import copy
import difflib
import inspect
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import gin

from t5x import checks
from t5x.start import gin_files

_MODULE = re.compile(r"<module '([\w.]+)'")
_CLASS = re.compile(r"<class '([\w.]+)'")
_LONGEST_LINE, _START = 600, 395
_OF_GIN = ValueError, SyntaxError, NameError, AttributeError, TypeError, OSError
_DATA_LIBRARIES = "seqio", "tensorflow", "tensorflow_text"
_STRINGS = '\nStrings need quotes of their own: --gin.NAME=\\"text\\".'
_LOCATION = re.compile(r'In file "([^"]+)", line (\d+)')


def explain(error: BaseException, texts: Mapping[str, str] | None = None) -> str | None:
    """Returns a message for an error of the configuration, or None for other errors.

    Errors inside a user's module that gin imports are left alone, because they need
    their traceback. Long lines are shortened, because gin quotes whole values.
    """
    text = str(error)
    if isinstance(error, ModuleNotFoundError):
        message = explain_call(error) or _unknown_module(error)
    else:
        message = _unset_macro(text, texts or {})
    if message is None and isinstance(error, _OF_GIN) and _raised_by_gin(error):
        hint = _STRINGS if isinstance(error, SyntaxError) else ""
        for pattern, hint_of in _HINTS.items():
            if found := re.search(pattern, text):
                hint = hint_of(*found.groups(), text)
                break
        message = f"{_one_paragraph(text)}{hint}"
    if message is None:
        return None
    return "\n".join(
        line if len(line) <= _LONGEST_LINE else f"{line[:_START]} ... {line[-200:]}"
        for line in message.splitlines()
    )


def explain_call(error: BaseException) -> str | None:
    """Returns a message for a known error in a call made by gin, or None.

    The known errors are missing packages of SeqIO tasks, missing values, unknown data
    types, and numbers that optax schedules refuse.
    """
    text = str(error)
    if isinstance(error, ModuleNotFoundError) and error.name in _DATA_LIBRARIES:
        return (
            f"{error.name} is not installed, and SeqIO tasks need it. Run "
            "`pip install 'jaxaug[seqio]'`."
        )
    if isinstance(error, RuntimeError) and text.startswith("Required bindings for"):
        return text.split("\n\n", 1)[0].split("\n  In call", 1)[0].strip()
    if isinstance(error, TypeError) and "No values supplied by Gin" in text:
        found = re.search(r"for arguments: (\[[^\]]*\])", text)
        names = found.group(1) if found else ""
        call = re.search(r"In call to configurable '([^']+)'", text)
        where = call.group(1) if call else "a configurable"
        return f"{where} lacks values for {names}: bind them in a gin file."
    unknown = re.match(r"data type ('[^']*') not understood", text)
    if isinstance(error, TypeError) and unknown:
        return f"{unknown.group(1)}: {checks.NO_DTYPE}"
    return _refused_by_optax(error, text)


def _refused_by_optax(error: BaseException, text: str) -> str | None:
    """Explains errors of optax schedules, which check numbers at creation."""
    frames = traceback.extract_tb(error.__traceback__)
    call = re.search(r"In call to configurable '([^']+)'", text)
    optax = sys.modules.get("optax")
    if not (isinstance(error, ValueError) and call and optax and frames):
        return None
    if not frames[-1].filename.startswith(os.path.dirname(str(optax.__file__))):
        return None
    return (
        f"optax.{call.group(1)}: {message_of(error)} Its numbers are bound in the gin "
        "files; where they are steps, TRAIN_STEPS has to exceed WARMUP_STEPS."
    )


def message_of(error: BaseException) -> str:
    """Returns the text of an error without gin's notes about its calls."""
    lines = str(error).splitlines()
    kept = [line for line in lines if not line.strip().startswith("In call to config")]
    return "\n".join(kept).strip() or type(error).__name__


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns '; did you mean X?' with the nearest known name, or '.'."""
    by_lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[found[0]]!r}?" if found else "."


def set_macros() -> set[str]:
    """Returns the names of the macros that the configuration sets."""
    return {scope for scope, name in gin.config._CONFIG if name == "gin.macro"}


def used_macros() -> set[str]:
    """Returns the names of the macros that the configuration refers to."""
    references = gin.config.iterate_references(
        gin.config._CONFIG, to=gin.config.get_configurable(gin.config.macro)
    )
    return {r.scoped_selector.rsplit("/", 1)[0] for r in references}


def unused_bindings(bindings: Collection[str]) -> list[str]:
    """Returns warnings about command-line macros that nothing refers to."""
    used = used_macros()
    warnings = []
    for binding in bindings:
        name = binding.split("=", 1)[0].strip()
        if re.fullmatch(r"\w+", name) and name in set_macros() - used:
            warnings.append(
                f"--gin.{name} has no effect: no gin file refers to %{name}"
                f"{nearest(name, used)}"
            )
    return warnings


def _raised_by_gin(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return isinstance(error, SyntaxError)
    folder = os.path.dirname(gin.__file__)
    return frames[-1].filename.startswith(folder) or isinstance(error, SyntaxError)


def _one_paragraph(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def _unknown_module(error: ModuleNotFoundError) -> str | None:
    """Explains a missing module only if a gin file names it."""
    text = str(error)
    # gin re-raises a copy without `name`.
    found = re.search(r"No module named '([\w.]+)'", text)
    if not found or not _raised_by_gin(error):
        return None
    missing = found.group(1)
    parent, _, leaf = missing.rpartition(".")
    if parent in sys.modules:
        paths = getattr(sys.modules[parent], "__path__", None)
        known = [m.name for m in pkgutil.iter_modules(paths)] if paths else []
        near = nearest(leaf, known)
    else:
        near = nearest(missing, [m.name for m in pkgutil.iter_modules()])
    return f"{_one_paragraph(text)}\nThere is no module {missing!r}{near}"


def _unknown_attribute(place: str, name: str, text: str) -> str:
    owner = _owner(place)
    known = [] if owner is None else [n for n in dir(owner) if not n.startswith("_")]
    return f"\nUnknown name {name!r}{nearest(name, known)}"


def _owner(text: str) -> Any:
    if found := _MODULE.search(text):
        return sys.modules.get(found.group(1))
    if found := _CLASS.search(text):
        module, _, name = found.group(1).rpartition(".")
        return getattr(sys.modules.get(module), name, None)
    return None


def _unknown_symbol(name: str, text: str) -> str:
    known: set[str] = set()
    if location := _LOCATION.search(text):
        known = _imported_names(location.group(1))
    near = nearest(name, known)
    return f"\nUnknown name {name!r}{near} Import it in that gin file."


def _imported_names(path: str) -> set[str]:
    for folder in ["", *(str(p) for p in gin.config._LOCATION_PREFIXES)]:
        candidate = os.path.join(folder, path)
        if os.path.exists(candidate):
            with open(candidate) as file:
                lines = re.findall(
                    r"(?m)^(?:from\s+\S+\s+)?import\s+(.+)$", file.read()
                )
            return {re.split(r"\s+as\s+", ln.split("#")[0].strip())[-1] for ln in lines}
    return set()


def _unknown_parameter(configurable: str, name: str, text: str) -> str:
    known: set[str] = set()
    for selector in gin.config._REGISTRY.matching_selectors(configurable) or [
        s
        for s in gin.config._REGISTRY._selector_map
        if s.rsplit(".", 1)[-1] == configurable.rsplit(".", 1)[-1]
    ]:
        wrapped = gin.config._REGISTRY[selector].wrapped
        known.update(inspect.signature(wrapped).parameters)
    listed = ", ".join(sorted(known)) or "none"
    return f"\nUnknown parameter {name!r}{nearest(name, known)} Known: {listed}."


def _unknown_configurable(scoped: str, text: str) -> str:
    name = scoped.rsplit("/", 1)[-1]
    known = set(gin.config._REGISTRY._selector_map)
    short = {s.rsplit(".", 1)[-1] for s in known}
    near = nearest(name, known | short)
    return f"\nUnknown name {name!r}{near}"


def _required_macro(scoped: str, text: str) -> str:
    name = scoped.split("/")[0]
    unused = set_macros() - used_macros() - {name}
    near = nearest(name, unused)
    if near == ".":
        return f"\nGive --gin.{name}=VALUE or set {name} in a gin file."
    other = near.removeprefix("; did you mean ").rstrip("?")
    return f"\n{other} is set and nothing refers to it: did you mean {name!r}?"


def _missing_file(path: str, text: str) -> str:
    folders = [str(prefix) for prefix in gin.config._LOCATION_PREFIXES]
    near = gin_files.nearest_file(path, folders)
    if near is None:
        return "\nName a file that exists, or its folder with --gin_search_paths."
    return f"\nDid you mean {near!r}?"


# Pattern of gin's message -> hint, from the groups of the pattern and the message.
_HINTS: Mapping[str, Callable[..., str]] = {
    r"Couldn't resolve selector \S+; (.*) has no attribute (\w+)": _unknown_attribute,
    r"'(\w+)' was not provided by an import statement": _unknown_symbol,
    r"'([^']+)' doesn't have a parameter named '(\w+)'": _unknown_parameter,
    r"No configurable matching (?:reference )?'@?([^'(]+)": _unknown_configurable,
    r"^(\S+) set to `%gin.REQUIRED` but not": _required_macro,
    r"Unable to open file: (\S+)\. Searched": _missing_file,
}


def unknown_mixtures(
    find: Callable[[str], Any],
    registered: Callable[[], Collection[str]],
    of_metric: bool = False,
) -> list[str]:
    """Returns messages about configured tasks and mixtures that are not registered.

    The macro DEV_TASK names the task whose metric chooses the best checkpoint.
    Functions that return such a name are called.

    Args:
        find: returns what needs no registration under a name, or None.
    """
    found = []
    for (scope, selector), values in list(gin.config._CONFIG.items()):
        # Copying a value evaluates its references.
        is_macro = (scope, selector) == ("DEV_TASK", "gin.macro")
        if of_metric and not is_macro:
            continue
        argument = "value" if is_macro else "mixture_or_task_name"
        name = copy.deepcopy(values.get(argument))
        if isinstance(name, str) and find(name) is None:
            known = registered()
            if name in known:
                continue
            owner = "/".join(filter(None, (scope, selector.rpartition(".")[2])))
            owner = scope if is_macro else f"{owner}.{argument}"
            found.append(
                f"{owner} is {name!r}: no task or mixture is "
                f"registered under that name{nearest(name, known)}"
            )
    return found


def _unset_macro(text: str, texts: Mapping[str, str]) -> str | None:
    found = re.search(r"No bindings specified for '(\w+)/gin.macro'", text)
    if not found:
        return None
    name = found.group(1)
    place = gin_files.first_use(texts, name)
    return (
        f"The macro %{name} is used{f' in {place},' if place else ''} but not set"
        f"{nearest(name, set_macros())} Set it in a gin file or with "
        f"--gin.{name}=VALUE."
    )
