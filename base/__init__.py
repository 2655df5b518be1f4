"""What every other folder uses: errors, files, command line, validation, intervals."""
