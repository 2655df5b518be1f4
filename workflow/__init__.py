"""How the study is run: its rules, the set-up of its environment, and its one command."""
