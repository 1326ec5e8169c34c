"""`make demo`: one story over all four parts, every command shown before it runs."""
