"""Faults on links between nodes: done in the nodes' network namespaces, and proven there."""
