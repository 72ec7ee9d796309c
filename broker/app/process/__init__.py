"""What any process of Stampede needs: signals, logs, a witness, the machine's bounds."""
