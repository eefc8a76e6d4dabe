"""`jaxaug launch`: the same T5X program on many machines, by the scripts of launch/.

Placement only: JAX itself makes one run of the processes. A launch is a text (a script, a
manifest) and the program that takes it, and `--dry-run` prints both.
"""
