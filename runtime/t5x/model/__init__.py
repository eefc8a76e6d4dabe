"""The model classes between a network and the programs."""
