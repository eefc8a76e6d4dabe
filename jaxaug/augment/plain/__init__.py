"""Augmentation without a schema: any text, and the user turns of dialogues."""
