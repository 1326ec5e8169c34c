"""Messages between machines, kept in one shared git repository.

The pure core, without I/O, git, clock or randomness:

    ecmascript, yaml_core, fields        what text and values mean on the wire
    rig_id, markers, body_hash           names, status classes, hashes
    envelope, frontmatter, yaml_*        reading a file; frontmatter_writer writes one
    schema, verdict, verification_kinds  what is wrong with it, and what that means for a pull
    drafts, peers, filenames             what a new envelope says, to whom, under which name
    attestation                          nonces, and what a relay turn must carry
    thread, causality, inbox             turns in order, who knew what, what waits for an answer
    sync_report                          what the remote would bring
    results, status_view, thread_view    what is printed; terminal holds colour and paging
    watch                                what changed between two looks

Records are NamedTuples: every command starts this package, and they are the cheapest to define and to make.
"""
