"""From start to stop of a standalone broker, as an operator sees it."""
