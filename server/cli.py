"""The `siltstone` command: reads arguments, calls the part that does the work, and sets the exit code."""

import typer

import siltstone

app = typer.Typer(name="siltstone", no_args_is_help=True, add_completion=False, help="Kafka topics as exact tables.")


@app.callback()
def options() -> None:
    """Turns Kafka topics into exactly-once, immediately queryable tables."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"siltstone {siltstone.__version__}")


def main() -> None:
    """Runs the command line; exits 0, 1 (failed) or 2 (wrong use)."""
    app()
