"""Who said it and what may be taken in: signatures, attestations, incoming changes (rigs §9, §10)."""
