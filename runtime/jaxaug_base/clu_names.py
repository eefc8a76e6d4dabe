"""The names of clu in the interface of T5X: metrics, their values, and iterators.

User-defined metrics and iterators derive from these classes, under upstream T5X too.
"""

from clu import metrics, values
from clu.data import dataset_iterator as iterators

__all__ = ["iterators", "metrics", "values"]
