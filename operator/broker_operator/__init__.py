"""The Kubernetes operator of Stampede: custom resources become objects and etcd keys (docs/adr/0006-kubernetes.md)."""
