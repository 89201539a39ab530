"""Tables, figures, comparisons with the papers' values, the report. From results only."""
