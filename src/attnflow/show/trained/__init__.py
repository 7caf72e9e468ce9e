"""Pictures of trained transformers."""
