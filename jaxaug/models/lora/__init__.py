"""Low-rank adapters (LoRA, Hu et al., 2021) of the families that generate text."""
