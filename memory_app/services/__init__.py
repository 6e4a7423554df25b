"""What may be done with a project's knowledge; every function that writes is one transaction."""
