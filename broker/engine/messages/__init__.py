"""Messages in memory or on a page, and what is known of their ids."""
