"""``siltstone query`` at a terminal: statements in, tables out, with history, completion and timing."""
