"""Pure algorithms: arrays, models, a Generator and a Budget in. Frozen dataclasses out."""
