"""The single-writer loop that joins engines and journal. Rule: persist, then tell."""
