"""`format("stampede")`: what Spark reads and writes, rows and batches of it."""
