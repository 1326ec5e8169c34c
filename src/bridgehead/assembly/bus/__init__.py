"""The bus put together with the record, approvals and models."""
