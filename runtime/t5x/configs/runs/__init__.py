"""How to run: one gin file for each program."""
