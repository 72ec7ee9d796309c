"""Settings, users and tokens changed while the broker runs."""
