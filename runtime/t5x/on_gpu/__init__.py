"""What networks compute differently on one GPU, for speed alone; values are the same."""
