"""Template filters of this app's pages."""
