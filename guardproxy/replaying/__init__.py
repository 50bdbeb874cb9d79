"""What `guardproxy replay` tells of recorded runs: sums per rule, comparisons, tables, and a page to look at."""
