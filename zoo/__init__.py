"""The project's own models: how they are drawn for, trained, judged and saved."""
