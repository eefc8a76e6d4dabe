"""From records to batches: sets, record cache, vocabulary, token batches."""
