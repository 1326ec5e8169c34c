"""Agents' answers in template-create: schemas, parsing, judging (flows §12)."""
