"""The words every other folder uses. Imports no other folder of the house."""
