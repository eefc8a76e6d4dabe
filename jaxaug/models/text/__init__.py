"""Models that read and write text: networks with their vocabularies."""
