"""Large bodies in files of their own."""
