"""Exchange messages between machines through one shared git repository.

    envelope       one file: its text, names, fields, frontmatter and schema
    trust          findings, signatures, attestations, incoming changes
    repositories   the clone it is kept in; only git/ knows git
    threads        turns in order, who knew what, and the index of all files
    views          what is printed
    operations     one command, one file
    ledger         the control plane of rigs §14, rebuilt from git at any time

Records are NamedTuples: every command starts with this package, and they are the
cheapest to define and to create.
"""
