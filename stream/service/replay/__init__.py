"""A recorded topic judged again: read, put in the log's order, judged, compared."""
