"""The other side of the comparisons, in plain code of each framework."""
