"""Resources as keys in a broker's etcd."""
