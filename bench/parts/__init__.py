"""What several benches share. No bench itself: `python -m bench` runs only the folder above."""
