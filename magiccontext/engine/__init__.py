"""The framework-free core: values in, values out.

Nothing below this package imports Django, touches a database, a clock, the network, a log or a random
source.  A pass is a function of (state, request, settings); time arrives as a value.
"""
