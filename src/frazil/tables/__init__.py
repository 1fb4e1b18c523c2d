"""Tables as code: declare -> diff (declared against live gives steps) -> explain or apply."""
