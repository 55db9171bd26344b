"""Coverage-guided fuzzing and the corpora that it left behind (docs/safety.md)."""
