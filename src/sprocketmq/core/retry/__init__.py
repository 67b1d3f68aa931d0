"""When a failed message comes again, and when it is given up."""
