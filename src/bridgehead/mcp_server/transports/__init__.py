"""Ways an MCP client reaches the server: stdio and Streamable HTTP."""
