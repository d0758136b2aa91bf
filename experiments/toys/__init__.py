"""The paper's toy problems: data with known symmetries, and one layer that has to find them."""
