"""Studies: many runs under one protocol, and the tables, figures and documents made from their results."""
