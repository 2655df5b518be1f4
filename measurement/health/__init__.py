"""The health of a machine: its ceilings and settings, compared with those of recorded machines."""
