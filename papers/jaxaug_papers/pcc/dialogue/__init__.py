"""The dialogue models that PCC is compared with: TransferTransfo and PerCVAE.

`transfertransfo` is GPT-2 with speaker types and two heads. `percvae` is a variational
network with a memory of the persona, and `percvae_model` trains it. `speakers` finds the
speaker of each token of a prompt; `gru` has gated recurrent units. Experiments:
configs/personachat_*.gin.
"""
