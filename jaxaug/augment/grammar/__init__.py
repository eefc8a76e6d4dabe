"""The rewording grammar: meaning-preserving rules for the short texts of schemas."""
