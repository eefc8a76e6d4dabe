"""The verb `jaxaug completion`: prints shell completion."""

import argparse
from collections.abc import Iterator

SHELLS = ("bash", "zsh")


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `completion`; the default `program` is the completed parser."""
    parser = verbs.add_parser(
        "completion",
        help="print shell completion for this command line",
        description="Prints shell completion for this command line. bash: "
        "jaxaug completion bash > ~/.local/share/bash-completion/completions/jaxaug; "
        "zsh: jaxaug completion zsh > DIR/_jaxaug, with DIR in $fpath before compinit. "
        "Repeat the command after updating jaxaug.",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash or zsh")
    parser.set_defaults(target="jaxaug.core.completion:run")


def run(arguments: argparse.Namespace) -> None:
    """Runs `jaxaug completion`: prints the script."""
    import shtab

    for action in _texts(arguments.program):
        # Most of them are files or folders; file completion does not hurt the others.
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(arguments.program, shell=arguments.shell))


def _texts(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yields the arguments of all verbs that take any text."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from _texts(verb)
        elif action.choices is None and action.type is None and action.nargs != 0:
            yield action
