"""The store of what the cluster agrees on (etcd). Rule: keys, revisions, leases, watches; not one word of slots."""

from broker.seams.grpc_core import prepare

prepare()
