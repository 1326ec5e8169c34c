"""Values as flow files and journals store them: JSON, ids, times."""
