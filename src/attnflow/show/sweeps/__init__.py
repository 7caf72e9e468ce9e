"""Pictures of sweeps."""
