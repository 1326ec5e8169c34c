"""What rig commands print."""
