"""The health of a machine: its ceilings and settings, compared with recorded machines."""
