"""A run's folder: the name and the structure of each of its files, once. No judgement."""
