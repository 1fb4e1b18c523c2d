"""The local stack: real servers without Docker, a file a service. Each can start, say whether it is ready, and stop."""
