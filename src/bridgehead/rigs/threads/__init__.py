"""Order threads, follow who knew what, and index the files of a bridge."""
