"""Running a council: calls under limits, files, stopping, resuming, the dry run."""
