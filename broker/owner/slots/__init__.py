"""The life of slots in one owner: records in, roles out."""
