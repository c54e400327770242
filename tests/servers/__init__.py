"""Real servers for the tests: Kafka, a Kafka look-alike, PostgreSQL, S3, and a faulty network."""
