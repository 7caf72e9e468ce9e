"""The figures of the catalogue, one module a paper or topic."""
