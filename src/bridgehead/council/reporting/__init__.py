"""Reports of seats and of the council, the gate, SARIF, and their rendered forms."""
