"""Measures how far the accuracy of tool calls depends on the tools' descriptions.

`jaxaug sensitivity` asks a model for calls under several wordings of the descriptions.
"""
