"""The loop that takes what has gathered, steps the engines and appends; what keeps its turns short."""
