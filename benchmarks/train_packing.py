"""How full the rows of D3ST examples are: single, and by each way of packing them.

    python benchmarks/train_packing.py --data_dir DIR --split dev

Counts tokens of the vocabulary of the data folder (`$JAXAUG_VOCABULARY` names another).
The examples come in a random order, as in training. The fraction is that of positions
which hold a token, inputs and targets together.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from t5x.feed import packing

from jaxaug.data import folders
from jaxaug.feed import export, parallel, vocabulary
from jaxaug.feed.packing import OpenRows
from jaxaug.formats.d3st import D3STOptions

# As in configs/runs/full_rows.gin.
OPEN_ROWS = 64


def lengths_of(data_dir: str | None, split: str) -> np.ndarray:
    """Tokens of inputs and targets [examples, 2], end of sequence included."""
    folder = str(folders.resolve_data_dir(data_dir))
    processor = vocabulary.load(vocabulary.model_file(data_dir))
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "d3st.tsv"
        corpus = parallel.Corpus(folder, split)
        export.export(corpus, D3STOptions(order="shuffled"), out, workers=1)
        lines = [line.split("\t") for line in out.read_text().splitlines()[1:]]
    columns = [
        [len(ids) + 1 for ids in processor.encode([line[column] for line in lines])]
        for column in (0, 1)
    ]
    return np.random.default_rng(0).permutation(np.array(columns).T)


def rows_in_order(lengths: np.ndarray, room: np.ndarray) -> int:
    """Rows of a packing that closes a row when the next example does not fit."""
    rows, free = 1, room
    for example in lengths:
        if (example > free).any():
            rows, free = rows + 1, room
        free = free - example
    return rows


def rows_from_open(lengths: np.ndarray, room: np.ndarray, number: int) -> int:
    """Rows of a packing that chooses among so many open ones."""
    rows = OpenRows(dict(enumerate(room.tolist())), number)
    closed = [
        rows.add([example], dict(enumerate(sizes)))
        for example, sizes in enumerate(lengths.tolist())
    ]
    return sum(row is not None for row in closed) + len(rows.state()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_dir")
    parser.add_argument("--split", default="dev")
    parser.add_argument(
        "--lengths", type=int, nargs=2, default=(1024, 256), help="inputs, targets"
    )
    arguments = parser.parse_args()
    lengths = lengths_of(arguments.data_dir, arguments.split)
    inputs, targets = arguments.lengths
    trimmed = np.minimum(lengths, (inputs, targets))
    for family, examples, room in (
        ("encoder-decoder", trimmed, np.array([inputs, targets])),
        (
            "decoder-only",
            trimmed.sum(axis=1, keepdims=True),
            np.array([inputs + targets]),
        ),
    ):
        windows = range(0, len(examples), packing.WINDOW)
        best = sum(
            len(packing.assign(examples[i : i + packing.WINDOW], room)) for i in windows
        )
        counts = {
            "single": len(examples),
            "SeqIO's packing": rows_in_order(examples, room),
            "open rows": rows_from_open(examples, room, OPEN_ROWS),
            "best fit": best,
        }
        for name, rows in counts.items():
            fraction = examples.sum() / (rows * room.sum())
            print(
                f"{family:15} {room.tolist()!s:12} {name:15} {rows:7} rows  "
                f"{len(examples) / rows:5.2f} examples a row  non-padding "
                f"{fraction:.3f}"
            )


if __name__ == "__main__":
    main()
