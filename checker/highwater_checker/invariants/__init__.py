"""One invariant, one module; each returns a CheckResult and reads nothing but its arguments."""
