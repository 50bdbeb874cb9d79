"""The demonstration: a scripted provider, an agent on the official client, and the proxy between them."""
