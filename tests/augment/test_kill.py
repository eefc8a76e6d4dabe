"""A killed run resumes and has lost at most one shard."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

# It appends its results to a file, and is killed before the text of that number.
PROGRAM = """
import os, signal, sys
from jaxaug.augment import config, run
from jaxaug.augment.schemes import registry
from jaxaug.augment.schemes.registry import Job

data_dir, out, seen, kill_at = sys.argv[1:]

def work(texts):
    found = []
    for text in texts:
        with open(seen, "a+") as file:
            file.seek(0)
            if len(file.readlines()) == int(kill_at):
                os.kill(os.getpid(), signal.SIGKILL)
            file.write(text + "\\n")
        found.append([text + " now", text + " or then"])
    return found

registry.SCHEMES["fake"] = lambda seed: [Job("fake", lambda: "fake", work, 2)]
fields = {"scheme": "fake", "variants": 2, "shard_size": 2, "splits": ("train", "dev")}
print(run.augment(config.of(fields, "here"), data_dir, out))
"""


@pytest.mark.parametrize("kill_at", [5])
def test_killed(python, sgd_tree, tmp_path, kill_at):
    seen, out = tmp_path / "seen.txt", tmp_path / "out"

    def go(cache: str, out: Path, kill_at: int = -1) -> subprocess.CompletedProcess:
        environment = os.environ | {"JAXAUG_CACHE_DIR": str(tmp_path / cache)}
        arguments = [str(sgd_tree), str(out), str(seen), str(kill_at)]
        return subprocess.run(
            [python, "-c", PROGRAM, *arguments],
            capture_output=True, text=True, env=environment, check=False,
        )  # fmt: skip

    killed = go("cache", out, kill_at)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(seen.read_text().splitlines()) == kill_at and not out.exists()
    # A kill during a write leaves such a file.
    (tmp_path / "cache/augment/candidates/.half.json.tmp").write_text('[["a')

    done = go("cache", out)
    assert done.returncode == 0, done.stderr
    # 6 texts of train, and 16 - 6 of dev, 6 of which are also in train. Each shard has
    # two texts; the fifth text was alone in its shard at the kill.
    texts = seen.read_text().splitlines()
    assert len(texts) - len(set(texts)) <= 2
    seen.unlink()
    whole = go("other", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    names = [p.relative_to(out) for p in sorted(out.rglob("*.json*")) if p.is_file()]
    assert len(names) == 6
    for name in names:
        if name.name == "augment.json":  # It holds a hash of our code.
            continue
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
