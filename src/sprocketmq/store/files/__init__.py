"""Files of a store: mapped, sized ahead, locked, and how far they are on the disk."""
