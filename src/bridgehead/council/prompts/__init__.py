"""The prompts of the council: text files, filled by builders that cannot bypass the fence (council §6)."""
