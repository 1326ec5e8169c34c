"""The decisions of one bridge (bus §5–§8), without I/O."""
