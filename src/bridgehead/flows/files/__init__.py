"""The files of a flow's root and their documents (flows §1–§5, §10)."""
