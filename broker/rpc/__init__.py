"""gRPC: the streams between processes and the generated messages on them. Rule: moves bytes; decides nothing."""
