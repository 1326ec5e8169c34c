"""What a bridge knows and permits of each participant. Pure."""
