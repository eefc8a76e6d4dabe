"""Calls of tools: how far their accuracy depends on the descriptions of the tools.

`jaxaug sensitivity` asks a model for calls under several wordings of the descriptions.
"""
