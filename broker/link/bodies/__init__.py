"""Large bodies in pieces, beside everything else; both ends."""
