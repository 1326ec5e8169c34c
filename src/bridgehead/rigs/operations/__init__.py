"""What a rig can do: one file per command, each a request in and a result out. Surfaces render the results."""
