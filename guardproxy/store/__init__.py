"""What must be true for many workers at once: sessions, budgets, rings. One implementation, the Redis protocol.

`redis.Store` is the store; `embedded` starts a Valkey of our own where no URL is configured; the `.lua` files hold the
rules (what is admitted, whose turn it is), `_codec` turns values into arguments, `_wire` and `_client` carry them.
"""
