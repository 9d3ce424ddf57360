"""A run for people: the screen, pictures, pages."""
