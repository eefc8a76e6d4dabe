"""`jaxaug launch`: the same T5X program on many machines, by the scripts of launch/.

It only places processes, which JAX joins to one run. A launch is a text (a script or a
manifest) and the program that reads it; `--dry-run` prints both.
"""
