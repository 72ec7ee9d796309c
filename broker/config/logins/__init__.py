"""Ways to log in other than by a passcode: issuers of tokens, directories, hooks."""
