"""The gateway (bus §10): connections, chat page, webhooks, pairing, status."""
