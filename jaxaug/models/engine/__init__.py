"""Models in CTranslate2: `writer` writes their folders, `runner` decodes with them.

CTranslate2 is a C++ library that decodes on CPUs and GPUs without JAX, so programs
start within a second. It comes with the extra `engine`.
"""
