"""Schema augmentation and robust dialogue state tracking on JAX.

Importing this package registers nothing and imports neither TensorFlow nor SeqIO.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"track": ["Tracker"]}
)
__version__ = "0.1.0"
