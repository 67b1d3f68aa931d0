"""Messages on their way to consumers: filters, parked pulls, delays, transactions."""
