"""Ways to reach a hub; the URL's scheme picks one."""
