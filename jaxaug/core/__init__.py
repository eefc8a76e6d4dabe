"""What every room uses and what imports none of them."""
