"""How values and bodies become text on a page."""
