"""Models with a name: where they come from and how they get here."""
