"""Where the time of our training step goes, by operation of the compiled program.

    python benchmarks/train_profile.py --shape base --batch 32 --lengths 1024 256 \\
        --dtype bfloat16

Takes a profile of some steps and sums the time of equal operations, all cores or streams
together. Numbers at the end of a name are left out: they tell copies of one operation
apart. A `while` holds the operations of its loop, which are listed as well. On a CPU, what
an operation hands to other threads is not in the profile, so the sum is less than the CPU
time of a step that `train.py` prints.
"""

import argparse
import collections
import re
import tempfile
from pathlib import Path

import train
import train_sides


def times(folder: str) -> collections.Counter[str]:
    """Nanoseconds of each kind of operation in the profile of a folder."""
    import jax.profiler

    (path,) = Path(folder).rglob("*.xplane.pb")
    planes = list(jax.profiler.ProfileData.from_file(str(path)).planes)
    devices = [plane for plane in planes if plane.name.startswith("/device:")]
    found: collections.Counter[str] = collections.Counter()
    for plane in devices or planes:
        for line in plane.lines:
            # On an accelerator the lines of streams hold what runs; on a CPU the threads.
            if not (line.name.startswith("Stream") if devices else "XLA" in line.name):
                continue
            for event in line.events:
                if "::" in event.name:  # XLA's own functions, which wait for operations
                    continue
                found[re.sub(r"[._]?\d+$", "", event.name)] += event.duration_ns
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    train.add_setting(parser)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--top", type=int, default=25, help="operations to print")
    arguments = parser.parse_args()
    import jax.profiler

    for shape in arguments.shape:
        work = train_sides.runtime_side(train.setting_of(arguments, shape))
        work.steps(1)
        work.finish()
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                work.steps(arguments.steps)
                work.finish()
            found = times(folder)
        total = sum(found.values())
        print(f"{shape}: {total / arguments.steps / 1e6:.1f} ms of operations a step")
        for name, spent in found.most_common(arguments.top):
            print(f"  {100 * spent / total:5.1f}%  {name[:110]}")


if __name__ == "__main__":
    main()
