"""Studies of the whole: how often verdicts are right, what they are worth, how to start."""
