"""The phases of template-create, named by their numbers (flows §11)."""
