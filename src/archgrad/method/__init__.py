"""A method: a frozen bundle of parts, its stages, its budget of α and what it does when a search collapses."""
