"""Would the tests notice a bug? `python -m tests.mutation` makes small random bugs and runs the tests that execute them."""
