"""One file per lane: each kind of change, when it may first happen and what it leaves."""
