"""The Iceberg REST catalog server. `app.py` is the route table; follow a request from there."""
