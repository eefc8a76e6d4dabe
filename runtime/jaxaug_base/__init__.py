"""What the T5X programs and jaxaug share: mistakes of users, and TensorBoard's event files."""
