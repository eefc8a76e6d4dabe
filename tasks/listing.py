"""Lists tasks and mixtures of SeqIO outside `jaxaug.feed.recipes`.

Importing this module imports `tasks`, which registers them.
"""

from collections.abc import Mapping

import seqio

from jaxaug.feed.recipes import Table


def others(
    table: Table,
) -> tuple[dict[str, tuple[str, ...]], dict[str, Mapping[str, float]]]:
    """Returns tasks with their split names, and mixtures with the rates of their tasks.

    Args:
        table: tasks and mixtures to leave out.
    """
    found = {
        # `Task.splits` refuses a task without splits.
        name: tuple(seqio.TaskRegistry.get(name).source.splits or ())
        for name in sorted(seqio.TaskRegistry.names())
        if name not in table.recipes
    }
    mixtures: dict[str, Mapping[str, float]] = {}
    for name in sorted(set(seqio.MixtureRegistry.names()) - table.mixtures.keys()):
        mixture = seqio.MixtureRegistry.get(name)
        rates = {t.name: mixture.get_rate(t) for t in mixture.tasks}
        mixtures[name] = dict(sorted(rates.items()))
    return found, mixtures
