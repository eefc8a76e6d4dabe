"""What networks compute differently on a CPU, for speed alone; values are the same.

jaxaug's networks use it where it is there, and do without under upstream's T5X.
"""
