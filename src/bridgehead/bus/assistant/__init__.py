"""The embedded assistant (bus §15): decisions, host, agents."""
