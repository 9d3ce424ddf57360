"""Faults on links between nodes: what is asked, done in nodes' namespaces, and proven."""
