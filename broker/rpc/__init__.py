"""gRPC: the streams between processes and the generated messages on them. Rule: moves bytes; decides nothing."""

from broker.seams.grpc_core import prepare

prepare()
