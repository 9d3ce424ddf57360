"""The catalogue of historical bugs, and the triggers that show each of them in a trace.

A preset without a fix may violate the invariants that the fix protects, but only by that bug:
`explain` returns the rows whose trigger a run's trace shows. Imports only core, and reads no
toggle.
Source: docs/reference/catalogue.md.
"""
