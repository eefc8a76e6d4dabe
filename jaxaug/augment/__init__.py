"""Schema augmentation: candidates, filters, metrics, tree ranking, variants."""
