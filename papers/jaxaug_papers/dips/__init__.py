"""The experiments of DiPS (Kumar et al., 2019).

`lstm` is the generator of the authors, which `free_running` trains. `vae_svg` has a latent
vector, for which `prior` is the sampler. `matching` judges pairs, and `rewarded` trains a
generator on its judgments (RbM). `classify` trains classifiers on paraphrases.
"""

from pathlib import Path


def folder() -> str:
    """Returns the folder that holds configs/; an entry point names this function."""
    return str(Path(__file__).parent)
