"""Reads and writes weights: key maps, file formats, folders, and packages."""
