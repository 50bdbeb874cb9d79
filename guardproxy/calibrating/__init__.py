"""What `guardproxy calibrate` tells of runs that happened: how large finished ones are, and what limits would do."""
