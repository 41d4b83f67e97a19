"""Synthetic states and logs, and judges that run beside their reference implementations."""
