"""Files of other brokers than Artemis: RabbitMQ's definitions, ActiveMQ Classic's activemq.xml, HornetQ's."""
