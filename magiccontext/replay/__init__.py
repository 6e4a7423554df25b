"""The product's own measuring rod (design section 11).

A recorded session of an agent is read (`readers`), turned into the calls its host made (`transcript`), and
played call by call: by four simple ways of keeping a session inside its window (`policies`) and by this
server over its public REST API (`managed`). One model of the provider's cache prices them all (`cost`), and
`verify` checks every answer of the server against the transcript: a bust must have a reason that the
transcript itself bears out.

Nothing here imports Django, the engine or the apps: the rod must not share a ruler with what it measures.
Only the token counter is the product's, and it is passed in.
"""
