"""The rounding error of numbers that the package prints and compares."""

ROUNDING = 1e-14  # of float64 in quantities of size one: about fifty units in the last place, as sums over tokens have
