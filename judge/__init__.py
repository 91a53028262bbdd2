"""Judge: rates replies. Shares no code with what it judges."""
