"""The log as replicas have it: items, whole copies, sums to compare by."""
