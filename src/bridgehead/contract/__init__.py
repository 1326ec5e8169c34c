"""The words all parts share: enums, inputs, reports, events, pending items. Plain data, no I/O."""
