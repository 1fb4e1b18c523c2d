"""Access to the catalog: what each route needs, and the gate that every request passes."""
