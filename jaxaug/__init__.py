"""Schema augmentation and robust dialogue state tracking on JAX.

Importing this package registers nothing and imports neither TensorFlow nor SeqIO.
"""

__version__ = "0.1.0"
