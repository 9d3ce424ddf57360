"""From run folders to tables: what is read, what is quarantined and why, what is skipped."""
