"""`make bench`: guardproxy against a bare reverse proxy, side by side. See README.md beside this file."""
