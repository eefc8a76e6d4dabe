"""Shorter imports: no garbage collection, and no optional imports of Keras."""

import gc
import os
import subprocess
import sys

import pytest
from t5x.start import machine

# The test creates `keras` and `sklearn`, and `other`, which imports the same.
_PROGRAM = """
import sys
from t5x.start import machine
with machine.quick():
    import keras
    assert keras.sklearn is None, keras.sklearn
    if sys.argv[1] == "inside":
        import other
import sklearn, other
assert other.sklearn is sklearn and other.sklearn.known
print(sys.meta_path[0])
"""
_WANTS = """
try:
    import sklearn
except ImportError:
    sklearn = None
"""


def test_the_garbage_collector_rests_while_modules_are_imported():
    frozen = gc.get_freeze_count()
    with pytest.raises(KeyError), machine.quick():
        assert not gc.isenabled()
        made = [[] for _ in range(1000)]
        raise KeyError
    assert gc.isenabled()
    # Remaining objects are hidden from the collector.
    assert gc.get_freeze_count() >= frozen + len(made)


@pytest.mark.parametrize("where", ["inside", "afterwards"])
def test_only_keras_does_without_scikit_learn(tmp_path, where):
    modules = {"keras": _WANTS, "other": _WANTS, "sklearn": "known = True\n"}
    for name, text in modules.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM, where],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert "RefusesKeras" not in found.stdout
