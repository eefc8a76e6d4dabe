"""Compares the times of DiPS and plain beam search for the same model in one run.

    python -m jaxaug_papers.dips.speed --text_dir TEXT --model runs/paraphrase_lstm

Each decoder writes ten outputs for the first questions of Quora's test pairs. `step`
searches with ten beams. `final` searches with 50 beams and selects ten outputs. Each
row is compared with beam search of its width. Times are CPU seconds per batch without
the first call, which compiles. The rows alternate within each batch.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from jaxaug.decode import set_search
from jaxaug.models.text import registry
from jaxaug.paraphrase import samplers
from jaxaug_papers.dips import quora_table

NUM = 10
ROWS = {
    f"beam, {NUM}": ("beam", NUM, {}),
    "DiPS step": ("dips", NUM, {"mode": "step"}),
    f"beam, {set_search.SetOptions.width}": ("beam", set_search.SetOptions.width, {}),
    "DiPS final": ("dips", NUM, {"mode": "final"}),
}
BASELINES = {
    "DiPS step": f"beam, {NUM}",
    "DiPS final": f"beam, {set_search.SetOptions.width}",
}


def main() -> None:
    """Prints the times and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text_dir", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--sources", type=int, default=64)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    file = options.text_dir / "quora/test.source.txt"
    texts = file.read_text("utf-8").splitlines()[: options.sources]
    outputs = quora_table.Outputs(
        registry.load(options.model), texts, options.batch_size, NUM, None
    )
    functions = {}
    for row, (name, num, given) in ROWS.items():
        sampler = samplers.find(name)
        functions[row] = sampler.build(num, sampler.complete(given)), num
        np.asarray(outputs.decode(*functions[row], *outputs.batches[0]))
    seconds: dict[str, list[float]] = {row: [] for row in ROWS}
    for _ in range(options.rounds):
        for batch in outputs.batches:
            for row, function in functions.items():
                start = time.process_time()
                np.asarray(outputs.decode(*function, *batch))
                seconds[row].append(time.process_time() - start)
    print("| decoder | CPU s / batch | ratio to beam search of its width |")
    print("|---|---|---|")
    for row, times in seconds.items():
        base = BASELINES.get(row)
        ratio = f"{np.mean(times) / np.mean(seconds[base]):.2f}" if base else ""
        print(f"| {row} | {np.mean(times):.3f} | {ratio} |")


if __name__ == "__main__":
    main()
