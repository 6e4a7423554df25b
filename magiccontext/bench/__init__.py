"""How fast the server is: whole round trips over loopback against a real ``serve`` process (design 10).

Figures hold for the machine they were taken on; what is comparable is the ratio to the echo view measured
in the same run, which receives, splits, hashes and returns the same bytes and does nothing else.
"""
