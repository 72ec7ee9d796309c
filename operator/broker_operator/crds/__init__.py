"""The CustomResourceDefinitions, made of the broker's settings."""
