"""One module per page; see `bridgehead.dashboard` on how to add one."""
