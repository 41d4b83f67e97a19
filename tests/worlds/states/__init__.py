"""States and logs that tests make up, and judges that run beside their twins."""
