"""What can be done with flows, one operation per file: a frozen request in, a frozen result out."""
