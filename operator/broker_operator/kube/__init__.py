"""Kubernetes' API: asked, watched, written to."""
