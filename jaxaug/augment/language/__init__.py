"""English words: lemmas, inflection, synonyms, sentences as words."""
