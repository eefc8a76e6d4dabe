"""The experiments of DiPS (Kumar et al., 2019).

`lstm` is the authors' generator, which `free_running` trains. `vae_svg` is a generator
with a latent vector, and `prior` is its sampler. `matching` scores pairs, and
`rewarded` trains a generator on these scores (RbM). `classify` trains classifiers on
paraphrases.
"""

from pathlib import Path


def folder() -> str:
    """Returns the folder that holds configs/; an entry point names this function."""
    return str(Path(__file__).parent)
