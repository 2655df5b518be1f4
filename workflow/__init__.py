"""How the study runs: its rules, the set-up of its environment, its one command."""
