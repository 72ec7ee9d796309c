"""gRPC: the streams between processes and the generated messages on them. Rule: moves bytes; decides nothing."""

import os

# gRPC's core writes to stderr, past our logs: every peer that goes is a line. What matters it tells us as errors.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
