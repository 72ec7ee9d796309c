"""What users, virtual hosts and addresses of clients use, and what they may."""
