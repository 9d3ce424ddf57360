"""What people see of a run: the screen, pictures, pages."""
