"""KEDA's external scaler messages, generated (`make proto`). Rule: nothing of ours in here."""
