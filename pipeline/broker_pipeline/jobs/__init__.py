"""What a command of stampede-pipeline does: archive, report, replay, rebuild, and upkeep of an archive."""
