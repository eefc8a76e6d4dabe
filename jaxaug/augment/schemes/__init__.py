"""Where candidates come from: one scheme a module."""
