"""T5 with scanned and rematerialised layers."""
