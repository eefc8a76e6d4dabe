"""Models that read and write text: a network with its vocabulary."""
