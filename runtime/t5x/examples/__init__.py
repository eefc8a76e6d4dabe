"""Model families for gin files: t5, scalable_t5, and decoder_only."""
