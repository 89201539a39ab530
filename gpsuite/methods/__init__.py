"""Pure algorithms: arrays, models, a Generator and a Budget in; frozen dataclasses out."""
