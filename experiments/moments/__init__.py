"""What second moments find in images that were moved by a known law, without a list of groups."""
