"""Highwater's public face: topology, clusters, workloads, evidence, the command line."""

import os

# A node that stops says goodbye to its channels, and gRPC prints each one to stderr. It reads
# this when it is first imported, so it stands before any import that may lead there.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
