"""`coalesce`: clusters that merge, to times of order e^beta."""
