"""Which code writes the outputs: a part of the keys of what is kept."""

from jaxaug import decode
from jaxaug.core import buckets
from jaxaug.core.digests import code_digest
from jaxaug.models.named import identities
from jaxaug.paraphrase import causal, decoder, samplers, stream


def of_outputs() -> str:
    """Digest of the code that decides what a model and a sampler write."""
    own = (decode, samplers, decoder, causal, stream, buckets)
    return code_digest(*own, *identities.network_code())
