"""Weights in and out: key maps, file formats, folders and packages."""
