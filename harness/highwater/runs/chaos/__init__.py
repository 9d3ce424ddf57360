"""Random plans, their outlines and repetitions, and single faults on a cluster that stays."""
