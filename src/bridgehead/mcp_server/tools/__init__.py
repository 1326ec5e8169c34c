"""What the tools do, one module for each part of bridgehead; named by the catalogue."""
