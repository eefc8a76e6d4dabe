"""Which code writes the outputs: a part of the keys of what is kept."""

from jaxaug import decode
from jaxaug.core import buckets, extensions
from jaxaug.core.digests import code_digest
from jaxaug.models.named import identities
from jaxaug.paraphrase import causal, decoder, samplers, stream


def of_outputs(sampler: str = "greedy") -> str:
    """Digest of the code that decides what a model and a sampler write.

    Args:
      sampler: a name of `samplers.SAMPLERS`; the code of another package's is added.
    """
    own = (decode, samplers, decoder, causal, stream, buckets)
    ours = code_digest(*own, *identities.network_code())
    return ours + extensions.code_of(samplers.find(sampler).make)
