"""`python -m guardproxy`."""

from __future__ import annotations

from guardproxy.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
