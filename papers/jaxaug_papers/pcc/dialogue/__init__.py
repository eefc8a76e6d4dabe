"""The baselines of PCC for dialogues: TransferTransfo and PerCVAE.

`transfertransfo` is GPT-2 with speaker types and two heads. `percvae` is a variational
network with a memory of the persona, and `percvae_model` trains it. `speakers` finds
the speaker of each token of a prompt; `gru` has gated recurrent units. The experiments
are configs/personachat_*.gin.
"""
