"""The debate of one seat, as pure runs that ask for calls and take their replies (council §9, §12, §17)."""
