"""`stampede cluster etcd` and `roles`: etcd itself, and who may do what there."""
