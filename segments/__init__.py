"""What a segment is: its identity, interval, schema, place in the timeline, Parquet file and deep storage."""
