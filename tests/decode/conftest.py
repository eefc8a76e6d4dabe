"""Makes `decode_kit` and `naive`, which lie in this folder, importable."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
