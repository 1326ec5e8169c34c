"""`bridgehead rig` and `rig-bridge`."""
