"""Model classes that connect a network to the training and inference programs."""
