"""Shows the state of a sharded service from its topics alone, and requests another number of shards from its resolver.

reading.py  reads the ends of the topics, and the consumer groups
status.py   derives the state of the service, and which shard delays the open round; prints it for people
request.py  requests a resize, or its cancellation, and waits for the response

Nothing here joins a consumer group, and only a request writes.
"""
