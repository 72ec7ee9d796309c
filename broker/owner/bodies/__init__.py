"""Large bodies that come, go and are kept."""
