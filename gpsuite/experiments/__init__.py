"""One module or package per family: plan, run one task, summarise."""
