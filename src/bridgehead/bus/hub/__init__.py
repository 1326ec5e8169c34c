"""The embedded hub, links to foreign hubs and bridges, health, and many hubs on NATS."""
