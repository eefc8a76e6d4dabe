"""Augmentation without a schema: of any text, and of what users say in dialogues."""
