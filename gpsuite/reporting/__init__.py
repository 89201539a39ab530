"""Tables, figures, comparisons with published values, the report. From results only."""
