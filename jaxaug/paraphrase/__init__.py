"""Paraphrases of the lines of a text file: `jaxaug paraphrase`."""
