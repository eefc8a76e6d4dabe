"""Kills a training run at random moments and checks that nothing changes.

    python benchmarks/kill_resume.py --data_dir DIR --kills 10

The program trains `configs/d3st_aug.gin` twice on the same data with the same seed. One
run is uninterrupted. The other run is killed `--kills` times (SIGKILL and SIGTERM in
turn, at random moments of the training) and continued with the same command. The
program compares all arrays of the last checkpoints and all metrics of the evaluations
bit for bit. It prints the comparison and exits with 1 if anything differs.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from flax import traverse_util
from t5x import checkpoints

# A line of progress, or the end of an evaluation during training.
_STEP = re.compile(rb"^step \d.*(inference eval|steps/s)", re.MULTILINE)


def command(options: argparse.Namespace, model_dir: Path) -> list[str]:
    bindings = [
        f'MODEL_DIR = "{model_dir}"',
        f"TRAIN_STEPS = {options.steps}",
        f"EVAL_PERIOD = {options.period}",
        f"evaluation.evaluator.num_examples = {options.eval_examples}",
        *options.gin_bindings,
    ]
    return [
        sys.executable,
        "-m",
        "t5x.train",
        f"--gin_file={options.gin_file}",
        *(f"--gin_bindings={binding}" for binding in bindings),
    ]


def run_until(
    arguments: list[str],
    environment: dict[str, str],
    log: Path,
    kill: int | None = None,
    delay: float = 0.0,
) -> tuple[int, bool]:
    """Runs the program to its end, or kills it `delay` seconds after training began.

    Returns:
        Its exit status, and whether it was killed before it ended.
    """
    killed = False
    with log.open("ab") as stream:
        process = subprocess.Popen(
            arguments, env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
        if kill is not None:
            start, seen = time.monotonic(), log.stat().st_size
            while process.poll() is None and time.monotonic() - start < 300:
                if _STEP.search(log.read_bytes()[seen:]):
                    break
                time.sleep(0.2)
            try:
                process.wait(timeout=delay)
            except subprocess.TimeoutExpired:
                process.send_signal(kill)
                killed = True
        return process.wait(), killed


def last_checkpoint(model_dir: Path) -> dict[tuple[str, ...], np.ndarray]:
    tree = checkpoints.load_t5x_checkpoint(str(model_dir))
    return traverse_util.flatten_dict(tree, keep_empty_nodes=True)


def metrics(model_dir: Path) -> dict[str, list]:
    """Returns the last evaluation of each task, from JSONL files of SeqIO's logger."""
    found = {}
    for path in sorted(model_dir.glob("inference_eval/*-metrics.jsonl")):
        found[path.name] = json.loads(path.read_text().splitlines()[-1])
    return found


def differences(straight: Path, killed: Path) -> list[str]:
    first, second = last_checkpoint(straight), last_checkpoint(killed)
    wrong = [f"only one run has {'/'.join(path)}" for path in set(first) ^ set(second)]
    for path in set(first) & set(second):
        if not np.array_equal(np.asarray(first[path]), np.asarray(second[path])):
            wrong.append(f"values differ: {'/'.join(path)}")
    if metrics(straight) != metrics(killed):
        wrong.append(f"metrics differ: {metrics(straight)} {metrics(killed)}")
    if not metrics(straight):
        wrong.append("no evaluation was written")
    print(f"compared {len(first)} arrays and {len(metrics(straight))} evaluations")
    return wrong


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gin_file", default="configs/d3st_aug.gin")
    parser.add_argument("--data_dir", help="default: $JAXAUG_DATA_DIR, else MiniSGD")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument(
        "--longest",
        type=float,
        default=6.0,
        help="seconds from its first line to a kill",
    )
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--period", type=int, default=100)
    parser.add_argument("--eval_examples", type=int, default=64)
    parser.add_argument(
        "--seed", type=int, default=0, help="random seed of the times of kills"
    )
    parser.add_argument("--gin_bindings", action="append", default=[])
    parser.add_argument("--work_dir", help="kept if given (default: a temporary one)")
    return parser.parse_args()


def main() -> int:
    options = parse()
    environment = dict(os.environ)
    if options.data_dir:
        environment["JAXAUG_DATA_DIR"] = options.data_dir
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(options.work_dir or scratch)
        base.mkdir(parents=True, exist_ok=True)
        straight, killed = base / "straight", base / "killed"
        arguments = command(options, straight)
        status, _ = run_until(arguments, environment, base / "straight.log")
        if status:
            print((base / "straight.log").read_text()[-4000:])
            return status
        arguments, log = command(options, killed), base / "killed.log"
        log.touch()
        deaths = 0
        for attempt in range(options.kills):
            kill = (signal.SIGKILL, signal.SIGTERM)[attempt % 2]
            delay = rng.uniform(0.0, options.longest)
            status, died = run_until(arguments, environment, log, kill, delay)
            steps = sorted(int(p.name[11:]) for p in killed.glob("checkpoint_*[0-9]"))
            print(f"{kill.name}: exit {status}, checkpoints {steps}", flush=True)
            if kill == signal.SIGTERM and status != 0:
                print(log.read_text()[-4000:])
                return 1
            deaths += died
        status, _ = run_until(arguments, environment, log)
        wrong = differences(straight, killed) if not status else [f"exit {status}"]
        if deaths < options.kills:
            wrong.append("the run ended before the last kill: raise --steps")
        print(f"{deaths} deaths;", "; ".join(wrong) or "the two runs are identical")
        return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
