"""The project's own small models: data, training, evaluation and export."""
