"""Settings read from Artemis' broker.xml."""
