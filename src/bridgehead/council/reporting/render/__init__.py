"""A council report for people: terminal text, Markdown, a self-contained page. The same order everywhere."""
