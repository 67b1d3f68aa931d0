"""The only place with sockets, event loops and the clock. One asyncio engine serves the async and the blocking world."""
