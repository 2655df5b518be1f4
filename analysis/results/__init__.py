"""Result files of other tools: reading them, variation between sessions, verdicts, history."""
