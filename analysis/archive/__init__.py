"""Citation and archives of the study."""
