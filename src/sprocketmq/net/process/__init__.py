"""What exists once in a process: clock, event loop, descriptors, memory, forking."""
