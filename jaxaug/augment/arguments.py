"""The arguments of `jaxaug augment text` and `dialogues`; importing this is cheap."""

import argparse


def add_dialogues(group: argparse._SubParsersAction) -> None:
    """Adds `dialogues` to the commands of `jaxaug augment`."""
    text = (
        "a copy of a data folder in which users mistype or hesitate; spans move along"
    )
    parser = group.add_parser("dialogues", help=text, description=text)
    parser.set_defaults(target="jaxaug.augment.plain.dialogues:run")
    parser.add_argument(
        "--scheme",
        required=True,
        metavar="NAME[,NAME]",
        help="typos (letters beside the right ones, left out, doubled, swapped), "
        "disfluency (uh, i mean, repetitions, restarts), or both",
    )
    parser.add_argument(
        "--data_dir",
        help="folder in the layout of the SGD repository, local or gs:// "
        "(default: $JAXAUG_DATA_DIR, else the embedded MiniSGD)",
    )
    parser.add_argument(
        "--splits",
        default="train",
        metavar="NAMES",
        help="whose users are changed, such as train,test (default: train)",
    )
    parser.add_argument(
        "--rate",
        type=float,
        default=0.1,
        help="probability of each word (default: 0.1)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, help="data folder to write")
