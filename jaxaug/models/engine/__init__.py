"""Models in CTranslate2: `runner` writes their folders and decodes with them.

CTranslate2 is a C++ library that decodes on CPUs and GPUs without JAX, so programs
start within a second. It comes with the extra `engine`.
"""
