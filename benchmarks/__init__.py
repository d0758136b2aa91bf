"""What the layers cost: projection, lifting layer and whole training step beside the others."""
