"""Networks that learn from pairs of texts, those of the DiPS paper and its rivals.

`lstm` is the authors' generator, trained as `free_running` says; `vae_svg` has a latent
vector; `matching` judges pairs, and `rewarded` trains a generator on what it says (RbM).
Experiments: configs/paraphrase_*.gin.
"""
