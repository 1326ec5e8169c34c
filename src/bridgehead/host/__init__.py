"""The machine: processes, files, locks, clock, terminal.

Import the module you need; this one stays empty.
"""
