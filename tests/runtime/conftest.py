"""Makes the kits importable."""

import pathlib
import sys

# The test modules import the *_kit modules of this folder.
sys.path.insert(0, str(pathlib.Path(__file__).parent))
