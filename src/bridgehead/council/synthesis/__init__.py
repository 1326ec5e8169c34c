"""From seat reports to one council report: joining, the cross-challenge, verdict (council §14)."""
