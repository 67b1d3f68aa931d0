"""What a process has: time, loops, descriptors, memory, children."""
