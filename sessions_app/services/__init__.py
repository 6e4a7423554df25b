"""What can be done with sessions.  Pages, REST and other callers go through here."""
