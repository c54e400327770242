"""What a program that uses the service imports: its version and its client."""

__version__ = "0.1.0"
