"""Tables, figures, comparisons with published values, the report; from results only."""
