"""The fuzzing of everything that reads bytes from outside: targets, seeds, and the long run."""
