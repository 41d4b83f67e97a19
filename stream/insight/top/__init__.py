"""Shows the metrics of the workers of a service: the command `spotsieve top`."""
