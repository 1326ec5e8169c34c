"""Do what a rig can do: one file per command, a request in and a result out."""
