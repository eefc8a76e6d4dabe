"""Version of the code that writes the outputs: a part of the cache keys."""

from jaxaug import decode
from jaxaug.core import buckets
from jaxaug.core.digests import code_digest
from jaxaug.models.named import identities
from jaxaug.paraphrase import causal, decoder, samplers, stream


def of_outputs() -> str:
    """Returns a digest of the code that computes the outputs of a model."""
    own = (decode, samplers, decoder, causal, stream, buckets)
    return code_digest(*own, *identities.network_code())
