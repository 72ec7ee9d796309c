"""What edges have sent to slots led here and no turn has had yet: in which order it goes, how much of it in a turn."""
