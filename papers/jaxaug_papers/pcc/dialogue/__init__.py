"""Networks that answer as a persona, those beside which PCC's authors set theirs.

`transfertransfo` is GPT-2 with speakers and two heads, `percvae` a variational network
with a memory of the persona, trained by `percvae_model`; `speakers` tells whose the
tokens of a prompt are, `gru` has gated recurrent units. Experiments:
configs/personachat_*.gin.
"""
