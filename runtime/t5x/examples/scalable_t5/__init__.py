"""T5 with scanned and rematerialized layers."""
