"""Code shared by the T5X programs and jaxaug: user errors and TensorBoard event files."""
