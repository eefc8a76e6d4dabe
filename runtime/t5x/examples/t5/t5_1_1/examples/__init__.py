"""Gin files, found by gin as resources of this package."""
