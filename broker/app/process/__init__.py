"""What any process of Stampede needs: signals, logs, a stall detector, the machine's bounds."""
