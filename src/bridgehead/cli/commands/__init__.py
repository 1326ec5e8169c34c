"""Commands that belong to no single part, one file each."""
