"""Resources as StatefulSets, Deployments, Services."""
