"""The test modules import `decode_kit` and `naive`, which lie next to them."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
