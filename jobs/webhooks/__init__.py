"""Who is told: signed callbacks, delivered at least once."""
