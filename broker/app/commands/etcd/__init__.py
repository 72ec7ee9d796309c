"""`stampede cluster etcd`, `roles`, `backup` and `restore`: etcd itself, who may do what there, and a copy of it."""
