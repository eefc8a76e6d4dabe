"""Blinded A/B comparisons of two files of outputs: the sheet, and the votes."""
