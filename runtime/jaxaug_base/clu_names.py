"""The names of clu in the interface of T5X: metrics, their values, and iterators.

User-defined metrics, loggers, and iterators use the classes of clu, which SeqIO needs
too. Where clu is not installed, `metric_types` takes its place.
"""

try:
    from clu import metrics, values
    from clu.data import dataset_iterator as iterators
except ImportError:
    from jaxaug_base import metric_types as iterators
    from jaxaug_base import metric_types as metrics
    from jaxaug_base import metric_types as values

__all__ = ["iterators", "metrics", "values"]
