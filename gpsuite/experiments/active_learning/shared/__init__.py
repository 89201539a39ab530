"""What the active learning experiments share: data of a repetition, its run, and learning curves."""
