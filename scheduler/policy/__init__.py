"""How would other systems divide this fleet? Their policies, for comparison with ours. Pure."""
