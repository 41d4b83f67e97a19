"""Shows the status of a service with shards from its topics, and requests another number of shards.

reading.py    the ends of the topics, and the sizes of the consumer groups
status.py     what the ends mean: the newest round, the shards that are behind, and what the service waits for
request.py    the request to the resolver to start or cancel a resize

No process joins a consumer group. Only a request writes to a topic.
"""
