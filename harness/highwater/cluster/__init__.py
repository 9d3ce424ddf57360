"""A cluster of containers: its topology, images, nodes, network and files."""
