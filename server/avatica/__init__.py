"""Avatica's protocol, by which JDBC drivers ask for SQL answers: connections, statements and frames of rows."""
