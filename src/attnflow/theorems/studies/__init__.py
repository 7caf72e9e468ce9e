"""Studies of Conjecture 1: two tokens, and scans of random matrices."""
