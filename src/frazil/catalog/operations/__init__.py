"""The operations of the REST specification, one function each: a context and a request in, a response out."""
