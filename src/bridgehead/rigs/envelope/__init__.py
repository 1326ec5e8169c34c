"""An envelope: names, frontmatter, fields, schema, body hash (rigs §1–§6). Pure."""
