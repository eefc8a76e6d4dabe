"""The experiments of three papers; importing this loads nothing heavy."""
