"""From a model's reply to drafts of findings (council §7, §10). Pure."""
