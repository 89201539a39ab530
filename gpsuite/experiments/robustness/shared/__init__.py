"""What the robustness experiments share: trained classifiers, free inputs, and how far a probability moves."""
