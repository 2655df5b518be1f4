"""Code that all folders share: errors, files, command line, validation, intervals."""
