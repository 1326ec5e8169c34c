"""Messages between machines, kept in one shared git repository.

    envelope       one file: its text, names, fields, frontmatter and schema
    trust          what speaks for and against an envelope: findings, signatures, attestation, incoming changes
    repositories   the clone it is kept in; git/ alone knows git
    threads        turns in order, who knew what, and the index that saves reading files again
    views          what is printed
    operations     one command, one file
    ledger         the control plane of rigs §14, rebuilt from git at any time

Records are NamedTuples: every command starts with this package, and they are the cheapest to define and to make.
"""
