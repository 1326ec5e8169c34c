"""The embedded hub, links to foreign hubs and bridges, health, and hubs on NATS."""
