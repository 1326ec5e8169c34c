"""Messages between machines, kept in one shared git repository.

The pure core, without I/O, git, clock or randomness:

    ecmascript, yaml_core, fields, timestamps   what text and values mean on the wire
    rig_id, markers, body_hash                  names, status classes, hashes
    envelope, frontmatter, yaml_*               reading a file; frontmatter_writer writes one
    schema, verdict, verification_kinds         what is wrong with it, and what that means for a pull
    drafts, scaffold, peers, filenames          what a new envelope says, to whom, under which name
    attestation, freeze                         what a relay turn carries, threads that wait for one
    thread, causality, inbox                    turns in order, who knew what, what waits for an answer
    sync_report                                 what the remote would bring
    results, sync_results, *_view, terminal     what is printed
    watch                                       what changed between two looks

Records are NamedTuples: every command starts with this package, and they are the cheapest to define and to make.
"""
