"""Named models: their sources, downloads, and identities."""
