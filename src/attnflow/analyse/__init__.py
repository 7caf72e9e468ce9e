"""What the tokens did: numbers from arrays and datasets."""
