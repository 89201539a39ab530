"""The guarantees as estimators in scikit-learn's conventions."""
