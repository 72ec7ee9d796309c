"""Who may do what: edge.permissions as a table that is asked, and what is found in it."""
