"""Declarations of commands: a class of a command's options, and its parser.

A field declares an option once. Its annotation has the type, the bounds, and the
choices. Its value is the default; without one the option is required. Its entry in the
docstring is the help text. This module imports quickly.
"""

import argparse
import dataclasses
import inspect
import os
import re
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any, ClassVar, Literal, NoReturn

from jaxaug.core.ranges import MAX_SEED, Range, bare

MANY = 1_000_000
"""Maximum number of outputs, rows, steps, or tokens that one command accepts."""

CONFIG = (
    "a file of configs/{}. It is a Python program and is executed, so use only files "
    "you trust; FILE.py:TEXT passes TEXT to its get_config"
)
"""Help text of `--config`, with a placeholder for the folder name."""

_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


class Arg:
    """The form of an option, in the annotation of its field.

    Args:
        *names: option strings (default: `--FIELD`), or the metavar of a positional
            argument.
        either: options with the same text exclude each other.
        **form: keywords of `argparse.ArgumentParser.add_argument`.
    """

    def __init__(self, *names: str, either: str = "", **form: Any):
        self.names, self.either, self.form = names, either, form


Count = Annotated[int, Range(1, MANY)]
Seed = Annotated[int, Range(0, MAX_SEED)]
PathLike = str | os.PathLike[str]
Split = Literal["train", "dev", "test"]
File = Annotated[str | None, Arg(metavar="FILE")]
Words = tuple[str, ...]
"""One or more words."""


@typing.dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,)
)
class Settings:
    """Options of a command, or a group of options; subclasses are frozen dataclasses.

    `class Fetch(Settings, verb="data fetch", target="jaxaug.data.fetch:run")` is the
    command `jaxaug data fetch`. Its docstring describes the command. Its `target` is
    called with an instance. The base of several commands has no verb. A field of
    another class of settings is a group of options.

    Raises:
        UserError: a value is out of its range, or has another type than its field.
    """

    verb: ClassVar[str]
    target: ClassVar[str]
    form: ClassVar[dict[str, Any]]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, verb: str = "", target: str = "", **form: Any) -> None:
        """Stores the names of the command, and further keywords of its parser."""
        cls.verb, cls.target, cls.form = verb, target, form

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """Makes the class a dataclass; the command line has many that it never uses."""
        fields_of(cls)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Checks each value against the annotation of its field."""
        from jaxaug.core.typed import check_option

        for field in fields_of(type(self)):
            check_option(name_of(field), getattr(self, field.name), field.type)

    def changed(self, names: Iterable[str]) -> list[str]:
        """Returns the names of the options that differ from their default."""
        defaults = {field.name: field.default for field in fields_of(type(self))}
        return [name for name in names if getattr(self, name) != defaults[name]]

    def as_base(self, kind: "type[_Base]") -> "_Base":
        """Returns the part of the options that a base class has."""
        return kind(**{f.name: getattr(self, f.name) for f in fields_of(kind)})


_Base = typing.TypeVar("_Base", bound=Settings)


def fields_of(settings: Any) -> tuple[dataclasses.Field[Any], ...]:
    """Returns the fields of a class of settings, its bases first."""
    if "__dataclass_fields__" not in vars(settings):
        for base in settings.__mro__[1:]:
            if issubclass(base, Settings) and base is not Settings:
                fields_of(base)
        dataclasses.dataclass(frozen=True, kw_only=True)(settings)
    return dataclasses.fields(settings)


class Parser(argparse.ArgumentParser):
    """A parser whose errors suggest the nearest verb, choice, or option."""

    settings: type[Settings] | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuses unknown arguments in the verb to which they belong."""
        self.fill()
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            name = next((one for one in unknown if one.startswith("-")), "")
            options = {o for action in self._actions for o in action.option_strings}
            near = _near(name.partition("=")[0], options) if name else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}.{near}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Adds the nearest choices to the message."""
        if match := _CHOICE.search(message):
            names = [name.strip("'\"") for name in match[2].split(", ")]
            message += f".{_near(match[1], names)}"
        super().error(message.removesuffix("."))

    def fill(self, deep: bool = False) -> None:
        """Adds the declared options; if `deep`, also to all commands below."""
        settings, self.settings = self.settings, None
        if settings:
            fill(self, settings)
        for action in self._actions if deep else ():
            if isinstance(action, argparse._SubParsersAction):
                for one in action.choices.values():
                    if isinstance(one, Parser):
                        one.fill(deep)


def _near(name: str, known: Any) -> str:
    from jaxaug.core.suggestion import nearest

    return nearest(name, sorted(known))


def adds(
    *commands: type[Settings], metavar: str = "COMMAND", kind: type = Parser
) -> Callable[[argparse._SubParsersAction], None]:
    """Returns a function that adds a verb.

    Args:
        *commands: the options of the verb, then of its commands.
    """

    def add(verbs: argparse._SubParsersAction) -> None:
        parser = _command(verbs, commands[0])
        if commands[1:]:
            group: Any = parser.add_subparsers(
                metavar=metavar, required=not commands[0].target, parser_class=kind
            )
            for one in commands[1:]:
                _command(group, one)

    return add


def _command(group: Any, settings: type[Settings]) -> argparse.ArgumentParser:
    about, name = _about(settings), settings.verb.rpartition(" ")[2]
    parser = group.add_parser(name, help=about, description=about, **settings.form)
    parser.settings = settings
    if settings.target:
        parser.set_defaults(target=settings.target, settings=settings)
    return parser


def fill(parser: Any, settings: type[Settings]) -> None:
    """Adds the options of a class of settings to a parser or a group of it."""
    texts: dict[str, str] = {}
    for base in reversed(settings.__mro__):
        entries = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        texts |= {
            name: " ".join(text.split()) for name, text in _ENTRY.findall(entries)
        }
    groups: dict[str, Any] = {}
    for field in fields_of(settings):
        kind, notes = bare(field.type)
        if _is_group(kind):
            fill(parser.add_argument_group(_about(kind)), kind)
            continue
        arg = next((one for one in notes if isinstance(one, Arg)), Arg())
        if arg.form.get("help") == argparse.SUPPRESS:
            continue  # Another part of the program sets it.
        names, form = _form(field, kind, notes, arg, texts.get(field.name, ""))
        place = parser
        if arg.either:
            if arg.either not in groups:
                groups[arg.either] = parser.add_mutually_exclusive_group(
                    required=form.pop("required")
                )
            place = groups[arg.either]
            form.pop("required", None)
        place.add_argument(*names, **form)


def _form(
    field: dataclasses.Field[Any], kind: Any, notes: list[Any], arg: Arg, text: str
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Returns the names and the keywords of an option for `add_argument`."""
    default = None if field.default in ((), dataclasses.MISSING) else field.default
    form: dict[str, Any] = {"default": default, "help": text}
    is_required = field.default is dataclasses.MISSING
    if kind is bool:
        form["action"] = argparse.BooleanOptionalAction if default else "store_true"
    elif kind is int:
        most = max([MANY, *(one.most for one in notes if isinstance(one, Range))])
        form |= {"type": whole(int(most)), "metavar": "N"}
    elif kind is float:
        form["type"] = float
    elif typing.get_origin(kind) is Literal and "metavar" not in arg.form:
        form["choices"] = typing.get_args(kind)
    elif typing.get_origin(kind) is tuple:
        item, *others = typing.get_args(kind)
        form["type"] = None if bare(item)[0] is str else bare(item)[0]
        form["nargs"] = "+" if others == [...] else 1 + len(others)
    if arg.names and not arg.names[0].startswith("-"):
        form.pop("action", None)
        form["metavar"] = arg.names[0] or None
        names: tuple[str, ...] = (field.name,)
        if not is_required:
            form.setdefault("nargs", "?")
    else:
        form |= {"dest": field.name, "required": is_required}
        names = arg.names or (f"--{field.name}",)
    form |= arg.form
    has_value = default not in (None, "") and not isinstance(default, bool)
    if has_value and "(default" not in form["help"]:
        form["help"] = f"{form['help']} (default: {default})".strip()
    form["help"] = form["help"].replace("%", "%%")
    return names, form


def given(parsed: argparse.Namespace, settings: type[Settings]) -> Any:
    """Returns the settings of a parsed command line.

    Raises:
        UserError: a value is out of range.
    """
    values = {}
    for field in fields_of(settings):
        kind, _ = bare(field.type)
        if _is_group(kind):
            values[field.name] = given(parsed, kind)
            continue
        value = getattr(parsed, field.name)
        value = field.default if value is None and field.default == () else value
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return settings(**values)


def name_of(field: dataclasses.Field[Any]) -> str:
    """Returns the name of an option in messages."""
    notes = bare(field.type)[1]
    return next(
        (one.names[0] for one in notes if isinstance(one, Arg) and any(one.names)),
        f"--{field.name}",
    )


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Settings)


def _about(settings: type[Settings]) -> str:
    """Returns the first paragraph of a docstring, as a phrase."""
    text = inspect.cleandoc(settings.__doc__ or "").partition("\n\n")[0]
    text = " ".join(text.split()).removesuffix(".")
    is_name = any(map(str.isupper, text.partition(" ")[0][1:]))
    return text if is_name else text[:1].lower() + text[1:]


def whole(most: int) -> Callable[[str], int]:
    """Returns the `type` of an argument that is a whole number of at most `most`.

    Larger numbers overflow arrays, or fill the memory long after the start of the
    command. The verb checks the smallest number.
    """

    def parse(text: str) -> int:
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{shown!r} is not a whole number: give one of at most {most:,}"
            ) from None
        if number > most or number < -most:
            raise argparse.ArgumentTypeError(
                f"{shown} is out of range: give a whole number of at most {most:,}"
            )
        return number

    return parse


class DataDir(Settings):
    """A verb that reads a data folder.

    Attributes:
        data_dir: folder in the layout of the SGD repository, local or gs:// (default:
            $JAXAUG_DATA_DIR, else the embedded MiniSGD)
    """

    data_dir: str | None = None


class Offline(Settings):
    """A verb that may download models; `cli` makes the option an environment variable.

    Attributes:
        offline: download no model; otherwise smollm2 (93 MB) and minilm (84 MB) are
            fetched at their first use
    """

    offline: bool = False


class TrainedRun(Settings):
    """A verb that may load a training run.

    Attributes:
        accept_changed_config: use the config.gin of a run even if it was changed after
            training wrote it
    """

    accept_changed_config: bool = False


class Texts(Settings):
    """A verb that reads texts; see `jaxaug.data.tables`.

    Attributes:
        input: UTF-8: .csv, .tsv, .jsonl, otherwise one text per line; - is standard
            input
        column: column of the texts (default: text, or the only column)
    """

    input: Annotated[PathLike, Arg("--in")]
    column: str | None = None


class Shards(Settings):
    """A verb whose work several machines can share.

    Attributes:
        shard: do part K of N (K from 1) and write it to OUT.parts, for N machines
        merge: combine all N parts in these folders into OUT (default: OUT.parts)
    """

    shard: Annotated[str | None, Arg(metavar="K/N")] = None
    merge: Annotated[Words | None, Arg(metavar="DIR", nargs="*")] = None


class Engine(Settings):
    """A verb that may decode without JAX; see `jaxaug.models.engine`.

    Attributes:
        engine: ctranslate2 (extra engine) converts the model once and then decodes
            without JAX (docs/predict.md)
    """

    engine: Literal["jax", "ctranslate2"] = "jax"
