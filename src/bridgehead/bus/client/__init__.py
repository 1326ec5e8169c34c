"""The participant's side: connect with a join file, or talk to a hub directly."""
