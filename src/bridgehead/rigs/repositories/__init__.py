"""Where envelopes are kept: base.py says what a repository can do, git/repository.py does it.

Import the module you need.
"""
