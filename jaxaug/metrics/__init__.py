"""Pure scoring functions and the reports that are made of them."""
