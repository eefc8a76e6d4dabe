"""Builds a model from a run's `config.gin` without running other code of the file.

A gin file imports what it names and calls what it refers to. For gin,
`MODEL = @os.system()` in a downloaded folder is as good as a network. Here, gin only
parses the file. Names such as MODEL are built from a fixed set of classes and
functions. The set consists of `KNOWN`, the networks of all families, networks that
installed packages register as `jaxaug.networks`, and modules that the user lists in
`$JAXAUG_TRUSTED_MODULES`. Everything else in the file, including imports, is only text.
The gin configuration of the calling program is neither used nor changed.
"""

import dataclasses
import functools
import importlib
import os
import sys
import tokenize
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from etils import epath
from gin import config_parser

from jaxaug.core import bundled, extensions
from jaxaug.core.digests import file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, read_text, shortened
from jaxaug.models.weights import families

TRUSTED_VARIABLE = "JAXAUG_TRUSTED_MODULES"
ACCEPT_VARIABLE = "JAXAUG_ACCEPT_CHANGED_CONFIG"
_CONFIG, _DIGEST = "config.gin", "config_digest.json"
_T5 = ("T5Config", "Transformer")
_SEQIO = ("ByteVocabulary", "PassThroughVocabulary", "SentencePieceVocabulary")

KNOWN: Mapping[str, Collection[str]] = {
    "t5x.models": ("DecoderOnlyModel", "EncoderDecoderModel"),
    "t5x.examples.t5.network": _T5,
    "t5x.examples.scalable_t5.network": _T5,
    "t5x.examples.decoder_only.network": ("DecoderWrapper", "TransformerConfig"),
    "t5x.gin_utils": ("bool_fn", "string_split_fn", "sum_fn"),
    "jaxaug.models.t5": ("ScratchEncoderDecoderModel", "SourceEncoderDecoderModel"),
    "jaxaug.models.initial": ("vocabulary",),
    "jaxaug.models.lora.settings": ("Settings",),
    "jaxaug.models.tokenizers.hf": ("load",),
    "jaxaug.feed.pair_words": ("metric_of", "path_of"),
    "jaxaug.feed.vocabulary": ("TokenVocabulary",),
    "tasks.vocabulary": ("FoundVocabulary", "default_vocabulary", "padded_size"),
    "seqio": _SEQIO,
    "seqio.vocabularies": _SEQIO,
}
"""Names that a configuration may call, by module, in addition to networks of families.

None of them runs, writes, or removes anything that its arguments name.
"""

_MACROS = ("macro", "gin.macro")


@dataclasses.dataclass(frozen=True)
class _Reference:
    """`@scope/name` or `@scope/name()`; `target` is empty without an import."""

    written: str
    scopes: tuple[str, ...]
    target: str
    call: bool


@dataclasses.dataclass(frozen=True)
class _Macro:
    """`%name`."""

    name: str


def build(
    path: PathLike,
    name: str,
    *,
    without: Collection[str] = (),
    arguments: Mapping[str, Any] | None = None,
    replaced: Mapping[str, Callable[..., Any]] | None = None,
) -> Any:
    """Builds the value of a name in a configuration, as gin would.

    Args:
        path: the configuration; it may include files in the same folder.
        name: name such as MODEL.
        without: arguments of the named function that keep their defaults.
        replaced: replacements of functions in `KNOWN`, by module and name.

    Raises:
        UserError: the file is missing, is not a gin file, or was changed after training
            wrote it; it does not define the name; or the value needs something unknown,
            or cannot be built.
    """
    reader = _read(path)
    if name not in reader.macros:
        raise UserError(f"{path} does not define {name}.")
    reader.without, reader.arguments = without, arguments or {}
    reader.replaced = replaced or {}
    return reader.value(_Macro(name), (), outermost=True)


def bound(path: PathLike, function: str, name: str) -> Any:
    """Returns the resolved value that a file binds to an argument, or None."""
    reader = _read(path)
    for (scope, target), arguments in reader._bindings.items():
        if not scope and target.rpartition(".")[2] == function and name in arguments:
            return reader.value(arguments[name], ())
    return None


def _read(path: PathLike) -> "_Reader":
    """Parses a configuration, and checks that it is unchanged since training."""
    file = epath.Path(path)
    reader = _Reader(file)
    reader.parse(file)
    _check_unchanged(file)
    return reader


def _check_unchanged(path: epath.Path) -> None:
    """Compares the `config.gin` of a run with the digest that training recorded."""
    note = path.parent / _DIGEST
    if path.name != _CONFIG or not note.exists():
        return
    noted = read_json(note, f"It belongs to {path}: restore both from a copy.")
    written = noted.get("digest") if isinstance(noted, dict) else None
    if (found := file_digest(path)) == written:
        return
    if not os.environ.get(ACCEPT_VARIABLE):
        raise UserError(
            f"{path} was changed after training wrote it. It has digest {found}, but "
            f"{note} has {written}. Restore it from a copy of the run. If the change "
            f"is intended, give --accept_changed_config, or set ${ACCEPT_VARIABLE}=1."
        )
    _warn(f"{path} was changed after training wrote it, and is used as it is now")


@functools.cache
def _warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


class _Delegate(config_parser.ParserDelegate):
    """Returns references and macros unresolved."""

    def __init__(self, imports: Mapping[str, config_parser.ImportStatement]):
        self._imports = imports

    def configurable_reference(
        self, scoped_configurable_name: str, evaluate: bool
    ) -> _Reference:
        *scopes, selector = scoped_configurable_name.split("/")
        target = _full_name(selector, self._imports)
        return _Reference(selector, tuple(scopes), target, evaluate)

    def macro(self, macro_name: str) -> _Macro:
        return _Macro(macro_name)


def _full_name(
    selector: str, imports: Mapping[str, config_parser.ImportStatement]
) -> str:
    first, dot, rest = selector.partition(".")
    if (statement := imports.get(first)) is None:
        return ""
    if statement.is_from or statement.alias:
        selector = f"{statement.module}{dot}{rest}"
    return bundled.name_in_checkout(selector)


class _Reader:
    """The statements of a configuration, and the values that they define."""

    def __init__(self, path: epath.Path):
        self.macros: dict[str, Any] = {}
        self.without: Collection[str] = ()
        self.arguments: Mapping[str, Any] = {}
        self.replaced: Mapping[str, Callable[..., Any]] = {}
        self._path = path
        self._bindings: dict[tuple[str, str], dict[str, Any]] = {}
        self._parsing: list[epath.Path] = []
        self._building: list[tuple[Any, tuple[str, ...]]] = []

    def parse(self, path: epath.Path) -> None:
        """Adds the statements of a file; they override earlier ones."""
        if path in self._parsing:
            raise UserError(f"{path} includes itself. Remove that line.")
        self._parsing.append(path)
        text = read_text(path, "Name the folder of a T5X training run.")
        imports: dict[str, config_parser.ImportStatement] = {}
        try:
            for statement in config_parser.ConfigParser(text, _Delegate(imports)):
                if isinstance(statement, config_parser.ImportStatement):
                    imports[statement.bound_name()] = statement
                elif isinstance(statement, config_parser.IncludeStatement):
                    self.parse(self._included(path, statement.filename))
                elif isinstance(statement, config_parser.BindingStatement):
                    self._bind(statement, imports)
        except UserError:
            raise
        # gin constructs its SyntaxError with other arguments than Python.
        except (SyntaxError, tokenize.TokenError) as error:
            where = getattr(error.args[1], "line_num", None) if error.args[1:] else None
            line = f": line {where}" if where else ""
            raise UserError(f"{path}{line}: {shortened(error.args[0])}") from error
        except (RecursionError, TypeError, ValueError) as error:
            raise UserError(
                f"{path} is not a gin file ({shortened(error)})."
            ) from error
        self._parsing.pop()

    def _included(self, path: epath.Path, name: str) -> epath.Path:
        included = path.parent / name
        if ".." in included.parts or not _lies_in(included, path.parent):
            raise UserError(
                f"{path} includes {name}, which is outside of its folder, so it is "
                "not read. Write its lines into the file instead."
            )
        return included

    def _bind(
        self,
        statement: config_parser.BindingStatement,
        imports: Mapping[str, config_parser.ImportStatement],
    ) -> None:
        scope, selector, name, value, _ = statement
        if not name:
            self.macros[f"{scope}/{selector}" if scope else selector] = value
        elif selector in _MACROS and name == "value":
            self.macros[scope] = value
        else:
            target = _full_name(selector, imports)
            self._bindings.setdefault((scope, target), {})[name] = value

    def value(
        self, value: Any, scopes: tuple[str, ...], *, outermost: bool = False
    ) -> Any:
        """Returns a value with references and macros resolved in `scopes`."""
        if isinstance(value, list | tuple):
            return type(value)(self.value(item, scopes) for item in value)
        if isinstance(value, dict):
            return {
                self.value(key, scopes): self.value(item, scopes)
                for key, item in value.items()
            }
        if not isinstance(value, _Reference | _Macro):
            return value
        if (value, scopes) in self._building:
            shown = value.name if isinstance(value, _Macro) else value.written
            raise UserError(f"{self._path}: {shown} is needed to build itself.")
        self._building.append((value, scopes))
        if isinstance(value, _Macro):
            built = self.value(self._meaning(value), scopes, outermost=outermost)
        else:
            built = self._built(value, value.scopes or scopes, outermost)
        self._building.pop()
        return built

    def _meaning(self, macro: _Macro) -> Any:
        if macro.name not in self.macros:
            problem = (
                "a value that every user must give (%gin.REQUIRED)"
                if macro.name == "gin.REQUIRED"
                else f"%{macro.name}, which it does not define"
            )
            raise UserError(f"{self._path}: it needs {problem}.")
        return self.macros[macro.name]

    def _built(
        self, reference: _Reference, scopes: tuple[str, ...], outermost: bool
    ) -> Any:
        function = self._known(reference)
        bound: dict[str, Any] = {}
        for count in range(len(scopes) + 1):
            scope = "/".join(scopes[:count])
            bound |= self._bindings.get((scope, reference.target), {})
        replaced: Mapping[str, Any] = {}
        if outermost:
            replaced = self.arguments
            ours = {*replaced, *self.without}
            bound = {k: item for k, item in bound.items() if k not in ours}
        given = {name: self.value(item, scopes) for name, item in bound.items()}
        given |= replaced
        if not reference.call:
            return functools.partial(function, **given) if given else function
        try:
            return function(**given)
        except (
            AttributeError,
            LookupError,
            OSError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            raise UserError(
                f"{self._path}: {reference.written}() cannot be built: "
                f"{shortened(error)}"
            ) from error

    def _known(self, reference: _Reference) -> Any:
        if not reference.target:
            raise UserError(
                f"{self._path} refers to @{reference.written}, but has no line that "
                f"imports {reference.written.partition('.')[0]}."
            )
        module, _, name = reference.target.rpartition(".")
        ours = name in KNOWN.get(module, ())
        theirs = _is_trusted(module) or _is_registered(reference.target)
        if not ours and not theirs:
            raise UserError(
                f"{self._path} refers to @{reference.written} ({reference.target}), "
                "which is not a network, model, or vocabulary of jaxaug or T5X, so it "
                "is not run. If you trust the authors of this folder, set "
                f"${TRUSTED_VARIABLE}={module or 'MODULE'} and run the command again."
            )
        if reference.target in self.replaced:
            return self.replaced[reference.target]
        # A trusted module called `tasks` belongs to the user, not to this package.
        place = bundled.tasks_module(module) if ours else module
        try:
            return getattr(importlib.import_module(place), name)
        except (AttributeError, ImportError) as error:
            raise UserError(
                f"{self._path}: @{reference.written} cannot be imported ({error})."
            ) from error


def _lies_in(path: epath.Path, folder: epath.Path) -> bool:
    """Returns whether a path, with links resolved, is inside a folder."""
    if "://" in os.fspath(folder):
        return path.is_relative_to(folder)
    return Path(path).resolve().is_relative_to(Path(folder).resolve())


def _is_registered(target: str) -> bool:
    """Returns whether a name belongs to a family or is registered as a network."""
    if target in extensions.values("networks"):
        return True
    return any(
        target == f"{cls.__module__}.{cls.__qualname__}"
        for family in families.every()
        for cls in (family.code.Config, family.code.NETWORK)
    )


def _is_trusted(module: str) -> bool:
    """Returns whether the user trusts a module, by its name or its package's name."""
    trusted = os.environ.get(TRUSTED_VARIABLE, "").replace(",", " ").split()
    return any(module == item or module.startswith(f"{item}.") for item in trusted)
