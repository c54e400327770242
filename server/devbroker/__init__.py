"""A small durable broker that speaks Kafka's protocol on loopback: one node, for development only."""
