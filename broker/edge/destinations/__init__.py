"""What a destination means, in the dialect of the client."""
