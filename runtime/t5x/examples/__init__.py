"""Model families that gin files name: t5, scalable_t5, decoder_only."""
