"""Train a network: `config` says what, `run` does it and writes a run directory."""
