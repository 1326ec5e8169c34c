"""What template-create reads off a project without an agent (flows §11)."""
