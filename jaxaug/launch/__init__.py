"""`jaxaug launch`: the same T5X program on many machines, by the scripts of launch/.

The command only starts processes, which JAX joins into one run. A launch consists of a
text (a script or a manifest) and the program that reads it. `--dry-run` prints both.
"""
