"""Code shared by the T5X programs and jaxaug: user errors and event files."""
