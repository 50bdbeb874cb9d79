"""The HTTP side: workers that serve agents, and the parent that keeps them. The only room that knows aiohttp."""
