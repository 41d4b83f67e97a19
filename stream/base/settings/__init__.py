"""The settings: frozen models that are loaded once, and the settings text that a state and its log belong to."""
