"""Benchmarks: us and a peer interleaved in one run, so that only ratios matter."""
