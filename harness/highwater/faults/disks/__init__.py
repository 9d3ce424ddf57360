"""Faults of disks and of the files on them."""
