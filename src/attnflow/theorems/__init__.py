"""What is proved or conjectured, as statements that a run can be held against."""
