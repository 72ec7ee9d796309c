"""Scripts of frames that real brokers and our dialects are asked to play: `make oracles`."""
