"""Many AI runtimes, one report."""
