"""Keep envelopes in a git clone; git/repository.py is the way in.

Import the module you need.
"""
