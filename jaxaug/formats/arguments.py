"""Arguments of `jaxaug format`; this module imports quickly."""

import argparse

from jaxaug.core import arguments

# Rows of (format, description, option -> values with the default first).
_FORMATS: tuple[tuple[str, str, dict[str, tuple[str, ...]]], ...] = (
    (
        "d3st",
        "D3ST examples",
        {"categorical": ("1a", "a", "none"), "level": ("dst_intent", "dst")},
    ),
    (
        "json",
        "function calls: the schema as JSON tools, the state as JSON",
        {"level": ("dst", "dst_intent")},
    ),
    (
        "sdt",
        (
            "Show, Don't Tell: an example dialogue in place of descriptions "
            "($JAXAUG_DEMONSTRATIONS names a file of them)"
        ),
        {
            "categorical": ("letters", "values"),
            "level": ("dst", "dst_intent"),
            "answered": ("all", "active"),
            "names": ("names", "ids"),
        },
    ),
    (
        "sdtind",
        "Show, Don't Tell, one slot at a time ($JAXAUG_DEMONSTRATIONS as for sdt)",
        {},
    ),
    ("t5dst", "T5DST examples", {}),
)


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `format`."""
    parser = verbs.add_parser("format", help="dialogues to text-to-text examples")
    group = parser.add_subparsers(metavar="FORMAT", required=True)
    for name, about, choices in _FORMATS:
        verb = arguments.verb(group, name, "jaxaug.feed.export:run", about)
        verb.set_defaults(format=name)
        for option, values in choices.items():
            verb.add_argument(f"--{option}", choices=values, default=values[0])
        if name == "d3st":
            verb.add_argument("--delimiter", default="=")
        arguments.data_dir(verb)
        arguments.split(verb)
        verb.add_argument("--variant", help="v1..v5 (default: the original schema)")
        verb.add_argument("--order", choices=("schema", "shuffled"), default="schema")
        verb.add_argument(
            "--lowercase", action=argparse.BooleanOptionalAction, default=True
        )
        verb.add_argument(
            "--seed",
            type=arguments.whole(arguments.MAX_SEED),
            default=0,
            help="of the shuffled order",
        )
        verb.add_argument(
            "--epoch",
            type=arguments.whole(2**31 - 1),
            default=0,
            help="of the shuffled order",
        )
        verb.add_argument(
            "--workers", type=arguments.whole(10_000), default=0, help="0: one per core"
        )
        verb.add_argument("--out", required=True, help="TSV file to write")
