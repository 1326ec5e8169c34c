"""What is asked of a council: plan, settings, domains, clarifying questions. Pure."""
