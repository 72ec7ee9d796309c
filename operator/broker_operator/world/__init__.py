"""What the operator knows: resources, whose they are, and what each cluster is like."""
