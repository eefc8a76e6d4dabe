"""Models in CTranslate2: `writer` makes their folders, `runner` asks them.

CTranslate2 is a C++ library that decodes on CPUs and GPUs without JAX, so programs
start in a second. It comes with the extra `engine`.
"""
