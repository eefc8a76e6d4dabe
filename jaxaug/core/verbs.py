"""Verbs of the command line that other packages add with entry points `jaxaug.verbs`.

An entry point has the name of its verb and refers to a function `add(verbs)`, as in the
packages of jaxaug (docs/extending.md).
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from jaxaug.core import arguments
from jaxaug.core.errors import UserError
from jaxaug.core.extensions import Table, function
from jaxaug.core.installed import missing_package

Add = Callable[[argparse._SubParsersAction], None]

ELSEWHERE = dict.fromkeys(("fewshot", "classify", "invent", "papers"), "jaxaug-papers")
"""Maps verbs of other packages in this repository to the package."""


def table(own: Mapping[str, Add]) -> Table[Add]:
    """Returns verb -> function that adds it, of jaxaug and of other packages."""
    return Table(own, "verbs", made=_checked)


def add_others(
    verbs: argparse._SubParsersAction, known: Table[Add], wanted: str | None
) -> str:
    """Adds the verbs of other packages to the command line.

    Args:
        wanted: verb of the command; if another package has it, only this verb is added.
            An unknown verb, or None, adds all verbs, to list them.

    Returns:
        The reasons why some verbs cannot be used, for the end of the list.

    Raises:
        UserError: the package of the wanted verb is broken or not installed.
    """
    names = known.outside()
    if wanted in names:
        known[wanted](verbs)
        return ""
    if wanted in ELSEWHERE:
        raise missing_package(f"jaxaug {wanted}", ELSEWHERE[wanted])
    problems = []
    for name in names:
        try:
            known[name](verbs)
        except UserError as error:
            problems.append(str(error))
            if name not in known.data:
                verbs.add_parser(name, help="cannot be used, see below")
    return " ".join(problems)


def _checked(name: str, found: Any) -> Add:
    """Returns the function of an entry point, after checking that it adds its verb."""
    add = function(name, found)
    group = arguments.Parser(prog="jaxaug").add_subparsers()
    try:
        add(group)
    except Exception as error:
        raise TypeError(f"fails ({type(error).__name__}: {error})") from error
    if [*group.choices] != [name]:
        raise TypeError(f"adds {[*group.choices]}, expected the verb {name!r} alone")
    if not _has_target(group.choices[name]):
        raise TypeError("sets no default `target`, expected 'module:function'")
    return add


def _has_target(parser: argparse.ArgumentParser) -> bool:
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if groups:
        return all(_has_target(one) for g in groups for one in g.choices.values())
    return ":" in str(parser.get_default("target"))
