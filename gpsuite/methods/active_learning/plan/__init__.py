"""Ask and tell: the measured planner, what it knows, how it predicts safety and when it stops."""
