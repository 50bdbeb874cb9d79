"""Who pays for a request: org, team, key and user, and what holds for them."""

from __future__ import annotations

from guardproxy.core.model import value
from guardproxy.core.windows import Budget


@value
class Tenant:
    """From the virtual key; without keys it is the default org and nobody in it. `key` is an id, never the secret."""

    org: str = "default"
    team: str = ""
    key: str = ""
    user: str = ""
    policy: str = ""
    models: tuple[str, ...] = ()
    upstreams: tuple[str, ...] = ()
    budgets: tuple[Budget, ...] = ()
