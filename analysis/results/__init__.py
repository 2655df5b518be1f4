"""Result files of other tools: readers, variation between sessions, verdicts, history."""
