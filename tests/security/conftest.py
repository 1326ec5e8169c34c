"""What the attacks need: a fleet of its own."""

from assembly.fleet.conftest import fleet, postgres_server, submit

__all__ = ["fleet", "postgres_server", "submit"]
