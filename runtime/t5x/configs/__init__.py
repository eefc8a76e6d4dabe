"""Gin files that ship with the package."""
