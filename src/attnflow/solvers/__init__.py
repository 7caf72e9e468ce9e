"""One step in time: solvers, stopping conditions, observables, and the status of a run."""
