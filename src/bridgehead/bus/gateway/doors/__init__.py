"""Doors: networks of people (Matrix, voice satellites) as participants of the bus."""
