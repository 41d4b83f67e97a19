"""Processes of the service: as they are, killed at a step, with a defect, and what they should have said."""
