"""The arguments of `jaxaug format`; importing this is cheap."""

import argparse

from jaxaug.core import arguments


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `format`."""
    parser = verbs.add_parser("format", help="dialogues to text-to-text examples")
    group = parser.add_subparsers(metavar="FORMAT", required=True)
    d3st = arguments.verb(group, "d3st", "jaxaug.feed.export:run_d3st", "D3ST examples")
    d3st.add_argument("--categorical", choices=("1a", "a", "none"), default="1a")
    d3st.add_argument("--level", choices=("dst", "dst_intent"), default="dst_intent")
    d3st.add_argument("--delimiter", default="=")
    json = arguments.verb(
        group,
        "json",
        "jaxaug.feed.export:run_json",
        "function calls: the schema as JSON tools, the state as JSON",
    )
    json.add_argument("--level", choices=("dst", "dst_intent"), default="dst")
    sdt = arguments.verb(
        group,
        "sdt",
        "jaxaug.feed.export:run_sdt",
        "Show, Don't Tell: an example dialogue in place of descriptions "
        "($JAXAUG_DEMONSTRATIONS names a file of them)",
    )
    sdt.add_argument("--categorical", choices=("letters", "values"), default="letters")
    sdt.add_argument("--level", choices=("dst", "dst_intent"), default="dst")
    sdt.add_argument("--answered", choices=("all", "active"), default="all")
    sdt.add_argument("--names", choices=("names", "ids"), default="names")
    sdtind = arguments.verb(
        group,
        "sdtind",
        "jaxaug.feed.export:run_sdtind",
        "Show, Don't Tell, one slot at a time ($JAXAUG_DEMONSTRATIONS as for sdt)",
    )
    t5dst = arguments.verb(
        group, "t5dst", "jaxaug.feed.export:run_t5dst", "T5DST examples"
    )
    for verb in (d3st, json, sdt, sdtind, t5dst):
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
