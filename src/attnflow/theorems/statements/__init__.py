"""One module a family of statements: hypotheses, measurement, an example and a control for each."""
