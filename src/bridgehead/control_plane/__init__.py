"""The durable record: what happened, what runs, what waits for someone.

Import the module you need.
"""
