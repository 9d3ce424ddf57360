"""Fixtures that give a test its own cluster in containers."""
