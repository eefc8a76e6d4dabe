"""Published tokenizers."""
