"""Identity of a finding across runs: evidence, fingerprint, history, dismissals, SARIF (council §25)."""
