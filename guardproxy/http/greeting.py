"""What a person reads first when a proxy has started: where it is, who may use it, how agents and commands reach it."""

from __future__ import annotations

from guardproxy import __version__
from guardproxy.config import Config

HOW = {
    "none": (),
    "keys": ("every request needs a key: guardproxy keys create makes one",),
    "passthrough": ("every request needs the provider's key; it is passed on, and its hash tells tenants apart",),
}
"""What is said at the start of who may use it, by `auth.mode`."""

NO_KEY = "no upstream has an api_key: requests go to the provider without any key"
"""Said where clients' keys are ours, and so no key of the provider's comes with a request."""


def lines(config: Config, port: int, admin_url: str, where: str) -> list[str]:
    """The lines. `port`: that it has, whatever was asked for. `where`: options with which commands reach its store."""
    listen = config.listen
    base = f"http://{shown(listen.host)}:{port}"
    store = "redis" if config.store.url else f"embedded store in {config.data_dir}"
    workers = f"{listen.workers} worker{'' if listen.workers == 1 else 's'}"
    asked = ", ".join(config.addresses.values())
    tools, waits = config.tools, "sessions list"
    if tools.approval or tools.human:  # type: ignore[attr-defined]  # a model made at import
        waits = "approvals list"
    return [
        f"guardproxy {__version__} serves {base}/v1 for {asked} ({workers}, {store})",
        f"metrics and health: {admin_url}/metrics",
        *HOW[config.auth.mode],
        *([NO_KEY] if config.auth.mode == "keys" and not config.has_keys else []),
        f"{ABOUT[waits]}: guardproxy {waits}{where}",
        "Point an agent at it with one of:",
        f"  export OPENAI_BASE_URL={base}/v1",
        f'  client = openai.OpenAI(base_url="{base}/v1")',
        f"  export OPENAI_BASE_URL={base}/s/NAME-OF-THE-RUN/v1",
    ]


ABOUT = {"sessions list": "what its runs do", "approvals list": "what waits for a person"}
"""What the command shows that is named."""


def shown(host: str) -> str:
    """The host as another program would write it."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
