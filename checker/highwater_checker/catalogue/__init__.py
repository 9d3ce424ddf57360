"""The catalogue of historical bugs, and what of a trace names one of them.

A preset without a fix may break what the fix protects, but only by that bug: `explain` gives the
rows whose trigger a run's trace shows. Knows only core, and reads no toggle.
Source: docs/reference/catalogue.md.
"""
