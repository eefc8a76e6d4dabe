"""Examples/s of D3ST formatting, as ratios to a simple loop.

    python benchmarks/formatting.py --data_dir DIR --split test

The baseline is a short script. It reads the same files with `json.load` and joins the
same texts for every frame, without checks and without a key for parsing answers. Both
sides write their lines to a file. The second ratio compares examples per second of CPU
time, summed over all processes.
"""

import argparse
import functools
import json
import os
import tempfile
import time
from pathlib import Path

from jaxaug.data import folders
from jaxaug.feed import export, parallel
from jaxaug.formats.d3st import D3STOptions


def plain_loop(data_dir: Path, split: str, out: Path) -> int:
    """Formats a split in schema order, style 1a), level dst_intent."""
    schema = {
        service["service_name"]: service
        for service in json.loads((data_dir / split / "schema.json").read_text())
    }
    count = 0
    with out.open("w", encoding="utf-8") as stream:
        for path in sorted((data_dir / split).glob("dialogues_*.json")):
            for dialogue in json.loads(path.read_text()):
                history = []
                for number, turn in enumerate(dialogue["turns"]):
                    history.append(f"[{turn['speaker'].lower()}] {turn['utterance']}")
                    for index, frame in enumerate(turn["frames"]):
                        if "state" not in frame:
                            continue
                        line = plain_example(
                            schema[frame["service"]], frame["state"], history
                        )
                        place = f"{dialogue['dialogue_id']}\t{number}\t{index}"
                        stream.write(f"{line}\t{place}\n")
                        count += 1
    return count


def plain_example(service: dict, state: dict, history: list[str]) -> str:
    prompt, answer, asked = [], [], []
    for i, slot in enumerate(service["slots"]):
        options = slot["possible_values"]
        closed = slot["is_categorical"] and not all(v.isdigit() for v in options)
        prompt.append(f"{i}={slot['description']}")
        if closed:
            prompt += [f"{i}{chr(97 + j)}) {v}" for j, v in enumerate(options)]
        values = state["slot_values"].get(slot["name"])
        if values:
            text = " | ".join(values)
            if closed and values[0] in options:
                text = f"{i}{chr(97 + options.index(values[0]))}"
            answer.append(f"{i}={text}")
        if slot["name"] in state["requested_slots"]:
            asked.append(str(i))
    active = "none"
    for i, intent in enumerate(service["intents"]):
        prompt.append(f"i{i}={intent['description']}")
        if intent["name"] == state["active_intent"]:
            active = f"i{i}"
    inputs = " ".join(prompt + history).lower()
    targets = " ".join(
        ["[states]", *answer, "[intents]", active, "[req_slots]", *asked]
    ).lower()
    return f"{inputs}\t{targets}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_dir")
    parser.add_argument("--split", default="test")
    options = parser.parse_args()
    data_dir = folders.resolve_data_dir(options.data_dir)
    corpus = parallel.Corpus(str(data_dir), options.split)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.tsv"
        plain_loop(Path(data_dir), options.split, out)  # Warms the page cache.
        runs = {
            "plain loop, 1 process": lambda: plain_loop(
                Path(data_dir), options.split, out
            )
        }
        for workers in (1, 2):
            runs[f"jaxaug format, {workers} worker(s)"] = functools.partial(
                export.export, corpus, D3STOptions(), out, workers=workers
            )
        baseline = None
        for name, function in runs.items():
            start, cpu = time.perf_counter(), cpu_seconds()
            count = function()
            rates = (
                count / (time.perf_counter() - start),
                count / (cpu_seconds() - cpu),
            )
            baseline = baseline or rates
            wall, core = (
                rate / base for rate, base in zip(rates, baseline, strict=True)
            )
            print(
                f"{name:28} {rates[0]:9,.0f} examples/s   {wall:5.2f}x, "
                f"per core {core:5.2f}x"
            )


def cpu_seconds() -> float:
    """Returns the CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    main()
