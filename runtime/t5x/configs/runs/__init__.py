"""Gin files that run the programs, one per program."""
