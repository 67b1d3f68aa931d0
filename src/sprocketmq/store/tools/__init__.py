"""A store looked at from outside: checked, shown."""
