"""guardproxy: an OpenAI-compatible proxy that ends loops of agents and keeps their budgets."""

__version__ = "0.1.0"
